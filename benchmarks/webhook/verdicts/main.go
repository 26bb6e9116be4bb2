// Sends right and wrong objects in turn, and counts the answers that are right, wrong, and missing.
//
//	verdicts -url URL -ca FILE -right FILE -wrong FILE -accepted TEXT -refused TEXT -rate 300 -seconds 120
//
// The answer to the object of -right must contain the text of -accepted, that to the object of -wrong the text of
// -refused. Anything else that a server says is wrong, unless it says by HTTP 429 or 5xx that it can't answer: that is
// a failure, as is a broken connection. "@NUMBER@" in an object is another number in each request. -clients have
// connections of their own, which they keep; every -fresh'th request has a new one. With -rate 0 each client sends when
// it has its answer. The authorities in -ca are read for each connection. It prints as JSON how many requests there were
// and in how many seconds, latencies in milliseconds, and every wrong answer and failure with its time in seconds since
// the epoch.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var (
	url      = flag.String("url", "", "where the objects are sent by POST")
	ca       = flag.String("ca", "", "the authorities of the server's certificate")
	name     = flag.String("name", "", "the server's name in its certificate, where it is not that of the address")
	cert     = flag.String("cert", "", "a client certificate, with -key")
	key      = flag.String("key", "", "its key")
	right    = flag.String("right", "", "an object that must be accepted")
	wrong    = flag.String("wrong", "", "an object that must be refused")
	accepted = flag.String("accepted", "", "what the answer to the right one contains")
	refused  = flag.String("refused", "", "what the answer to the wrong one contains")
	rate     = flag.Float64("rate", 0, "requests per second; 0 for as many as are answered")
	seconds  = flag.Float64("seconds", 10, "how long requests are due")
	clients  = flag.Int("clients", 8, "clients with connections of their own")
	fresh    = flag.Int("fresh", 10, "every so many'th request has a new connection")
)

type incident struct {
	At   float64 `json:"at"`
	Text string  `json:"text"`
}

type report struct {
	Requests int        `json:"requests"`
	Seconds  float64    `json:"seconds"`
	P50      float64    `json:"p50"`
	P99      float64    `json:"p99"`
	Wrong    []incident `json:"wrong"`
	Failed   []incident `json:"failed"`
}

type object struct {
	text, expected []byte
}

type load struct {
	mutex     sync.Mutex
	latencies []float64
	report    report
	objects   [2]object
	next      atomic.Int64
}

func main() {
	flag.Parse()
	work := &load{report: report{Wrong: []incident{}, Failed: []incident{}}}
	work.objects = [2]object{{read(*right), []byte(*accepted)}, {read(*wrong), []byte(*refused)}}
	kept := make([]*http.Client, *clients)
	for index := range kept {
		kept[index] = client(false)
	}
	once := client(true)
	choose := func(index int) *http.Client {
		if index%*fresh == *fresh-1 {
			return once
		}
		return kept[index%*clients]
	}
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	var pending sync.WaitGroup
	if *rate == 0 {
		for range *clients {
			pending.Add(1)
			go func() {
				defer pending.Done()
				for time.Now().Before(end) {
					index := int(work.next.Add(1))
					work.ask(choose(index), index, time.Now())
				}
			}()
		}
	} else {
		for index := range int(*rate * *seconds) {
			due := start.Add(time.Duration(float64(index) / *rate * float64(time.Second)))
			time.Sleep(time.Until(due))
			pending.Add(1)
			go func() {
				defer pending.Done()
				work.ask(choose(index), index, due)
			}()
		}
	}
	pending.Wait()
	slices.Sort(work.latencies)
	work.report.Requests = len(work.latencies)
	work.report.Seconds = time.Since(start).Seconds()
	if count := len(work.latencies); count > 0 {
		work.report.P50, work.report.P99 = work.latencies[count/2], work.latencies[count*99/100]
	}
	if err := json.NewEncoder(os.Stdout).Encode(work.report); err != nil {
		log.Fatal(err)
	}
}

func (work *load) ask(by *http.Client, index int, due time.Time) {
	one := work.objects[index%2]
	answer, err := send(by, bytes.ReplaceAll(one.text, []byte("@NUMBER@"), []byte(strconv.Itoa(index))))
	told := incident{At: float64(time.Now().UnixMilli()) / 1000}
	work.mutex.Lock()
	defer work.mutex.Unlock()
	work.latencies = append(work.latencies, float64(time.Since(due).Microseconds())/1000)
	switch {
	case err != nil:
		told.Text = err.Error()
		work.report.Failed = append(work.report.Failed, told)
	case !bytes.Contains(answer, one.expected):
		told.Text = string(answer[:min(len(answer), 500)])
		work.report.Wrong = append(work.report.Wrong, told)
	}
}

func send(by *http.Client, text []byte) ([]byte, error) {
	question, err := http.NewRequest(http.MethodPost, *url, bytes.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	question.Header.Set("Content-Type", "application/json")
	answer, err := by.Do(question)
	if err != nil {
		return nil, errors.Unwrap(err) // without the address
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests) {
		return nil, fmt.Errorf("HTTP %d: %s", answer.StatusCode, content[:min(len(content), 500)])
	}
	return content, err
}

func client(closing bool) *http.Client {
	var own []tls.Certificate
	if *cert != "" {
		pair, err := tls.LoadX509KeyPair(*cert, *key)
		if err != nil {
			log.Fatal(err)
		}
		own = append(own, pair)
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(read(*ca))
		settings := &tls.Config{RootCAs: pool, ServerName: *name, Certificates: own, NextProtos: []string{"http/1.1"}}
		return (&tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: settings}).DialContext(ctx, network, address)
	}
	transport := &http.Transport{DialTLSContext: dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, DisableKeepAlives: closing}
	return &http.Client{Timeout: 10 * time.Second, Transport: transport}
}

func read(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	return text
}
