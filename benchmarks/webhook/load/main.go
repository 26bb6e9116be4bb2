// Asks a webhook at a fixed rate, whether it has answered or not, as the API server's clients do.
//
//	load -url URL -ca FILE -body FILE -rate 50 -seconds 5 -first 0
//
// Each request is due at its time, and its latency counts from then, not from when it could be sent: a server that
// stalls is charged for all who wait. "@NUMBER@" in the body is another number in each request. It prints as JSON the
// latencies in microseconds, in the order in which the requests were due, how many were answered without analysis, and
// how many were refused by HTTP 503, because the server has too much to do: their latencies are -1.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var (
	url     = flag.String("url", "", "the webhook's address")
	ca      = flag.String("ca", "", "the certificate authority's certificate")
	body    = flag.String("body", "", "the AdmissionReview")
	rate    = flag.Float64("rate", 50, "requests per second")
	seconds = flag.Float64("seconds", 5, "how long requests are due")
	first   = flag.Int("first", 0, "the first number; negative: the same one in all requests")
	warmUp  = flag.Int("connections", 16, "connections that are opened before the first request is due")
)

func main() {
	flag.Parse()
	text, err := os.ReadFile(*body)
	if err != nil {
		log.Fatal(err)
	}
	authority, err := os.ReadFile(*ca)
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client := &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}},
			MaxIdleConnsPerHost: 1024,
			// Stoker's server closes connections beyond 128: requests wait for one here, and their latency counts that.
			MaxConnsPerHost: 96,
			IdleConnTimeout: 90 * time.Second,
		},
	}
	open(client, text)

	count := int(*rate * *seconds)
	latencies := make([]int64, count)
	var unanalysed, refused atomic.Int64
	var pending sync.WaitGroup
	start := time.Now().Add(10 * time.Millisecond)
	for index := range count {
		due := start.Add(time.Duration(float64(index) / *rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		pending.Add(1)
		go func() {
			defer pending.Done()
			answer := ask(context.Background(), client, numbered(text, index))
			latencies[index] = time.Since(due).Microseconds()
			if answer == nil {
				refused.Add(1)
				latencies[index] = -1
			} else if bytes.Contains(answer, []byte("analyse")) {
				unanalysed.Add(1)
			}
		}()
	}
	pending.Wait()
	measured := map[string]any{"latencies": latencies, "unanalysed": unanalysed.Load(), "refused": refused.Load()}
	if err := json.NewEncoder(os.Stdout).Encode(measured); err != nil {
		log.Fatal(err)
	}
}

// open makes connections, so that no handshake is measured: the API server keeps its own.
func open(client *http.Client, text []byte) {
	var pending sync.WaitGroup
	for index := range *warmUp {
		pending.Add(1)
		go func() {
			defer pending.Done()
			ask(context.Background(), client, numbered(text, -1-index))
		}()
	}
	pending.Wait()
}

func numbered(text []byte, index int) []byte {
	number := *first + index
	if *first < 0 {
		number = -*first
	}
	return bytes.ReplaceAll(text, []byte("@NUMBER@"), []byte(strconv.Itoa(number)))
}

// ask returns the answer that allows the object, or nil where the server refused to review it.
func ask(ctx context.Context, client *http.Client, text []byte) []byte {
	question, err := http.NewRequestWithContext(ctx, http.MethodPost, *url, bytes.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	question.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(question)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	if answer.StatusCode == http.StatusServiceUnavailable {
		return nil
	}
	if answer.StatusCode != http.StatusOK || !bytes.Contains(content, []byte(`"allowed":true`)) {
		log.Fatalf("HTTP %d: %s", answer.StatusCode, content)
	}
	return content
}
