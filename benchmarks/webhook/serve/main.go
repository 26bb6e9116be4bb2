// A minimal validating webhook: decodes the AdmissionReview and its object, and answers that it is allowed.
//
//	serve CERTIFICATE KEY
//
// It listens on any port of loopback and prints that.
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

type typeMeta struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
}

type review struct {
	typeMeta
	Request  *request  `json:"request,omitempty"`
	Response *response `json:"response,omitempty"`
}

type request struct {
	UID       string          `json:"uid"`
	Operation string          `json:"operation"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Object    json.RawMessage `json:"object"`
}

type response struct {
	UID     string `json:"uid"`
	Allowed bool   `json:"allowed"`
}

type job struct {
	typeMeta
	Spec struct {
		Nodes       int    `json:"nodes"`
		GPUsPerNode int    `json:"gpusPerNode"`
		Image       string `json:"image"`
		Script      string `json:"script"`
	} `json:"spec"`
}

func validate(answer http.ResponseWriter, question *http.Request) {
	body, err := io.ReadAll(io.LimitReader(question.Body, 8<<20))
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	var asked review
	var object job
	if err := json.Unmarshal(body, &asked); err != nil || asked.Request == nil {
		http.Error(answer, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	if err := json.Unmarshal(asked.Request.Object, &object); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := json.Marshal(review{typeMeta: asked.typeMeta, Response: &response{UID: asked.Request.UID, Allowed: true}})
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	if _, err := answer.Write(text); err != nil {
		log.Print(err)
	}
}

func main() {
	certificate, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	// The API server speaks HTTP/1.1 with webhooks, so that its requests spread over several of their pods.
	settings := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}
	http.HandleFunc("/validate/dljobs", validate)
	log.Fatal(http.Serve(tls.NewListener(listener, settings), nil))
}
