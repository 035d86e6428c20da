// A caller of agents, and an agent that answers a constant, both on grpc-go and Google's Protocol Buffers for Go.
//
//	agent-peer serve ADDRESS
//	agent-peer call ADDRESS METHOD     an RTBRequest on stdin, the RTBResponse on stdout
//	agent-peer load ADDRESS RATE SECONDS CONNECTIONS CONCURRENCY     an RTBRequest on stdin, figures on stdout as JSON
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	pb "bidweir.example/bench/agent/pb"
)

const service = "com.iabtechlab.bidstream.mutation.services.v1.RTBExtensionPoint"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve decodes each request, and answers one mutation.
func serve(address string) {
	handler := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		request := &pb.RTBRequest{}
		if err := decode(request); err != nil {
			return nil, err
		}
		return &pb.RTBResponse{
			Id: request.Id,
			Mutations: []*pb.Mutation{{
				Intent:    pb.Intent_BID_SHADE,
				Op:        pb.Operation_OPERATION_REPLACE,
				Path:      "/seatbid/seat-1/bid/bid-1",
				AdjustBid: &pb.AdjustBidPayload{Price: 1.5},
			}},
			Metadata: &pb.Metadata{ApiVersion: "1.0", ModelVersion: "constant"},
		}, nil
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "GetMutations", Handler: handler}},
	}, nil)
	listener, err := net.Listen("tcp", address)
	check(err)
	check(server.Serve(listener))
}

func dial(address string) *grpc.ClientConn {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	return connection
}

func template() *pb.RTBRequest {
	sent, err := io.ReadAll(os.Stdin)
	check(err)
	request := &pb.RTBRequest{}
	check(proto.Unmarshal(sent, request))
	return request
}

func call(address, method string) {
	answer := &pb.RTBResponse{}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	check(dial(address).Invoke(ctx, method, template(), answer, grpc.WaitForReady(true)))
	bytes, err := proto.Marshal(answer)
	check(err)
	_, err = os.Stdout.Write(bytes)
	check(err)
}

// load sends calls at a rate, whatever the answers take; rate 0: as many at once as `concurrency`. Each is an auction of its own.
func load(address string, rate, seconds, connections, concurrency int) {
	request := template()
	pool := make([]*grpc.ClientConn, connections)
	for n := range pool {
		pool[n] = dial(address)
	}
	var failed, mutations, sent atomic.Int64
	var lock sync.Mutex
	var latencies, lateness []float64
	one := func(n int64) {
		own := proto.Clone(request).(*pb.RTBRequest)
		id := strconv.FormatInt(n, 36)
		own.Id = id
		own.BidRequest.Id = &id
		own.BidResponse.Seatbid[0].Bid[0].Id = &id
		answer := &pb.RTBResponse{}
		began := time.Now()
		err := pool[n%int64(connections)].Invoke(context.Background(), "/"+service+"/GetMutations", own, answer)
		took := time.Since(began)
		if err != nil {
			failed.Add(1)
		}
		mutations.Add(int64(len(answer.Mutations)))
		lock.Lock()
		latencies = append(latencies, took.Seconds()*1000)
		lock.Unlock()
	}
	began := time.Now()
	end := began.Add(time.Duration(seconds) * time.Second)
	var group sync.WaitGroup
	if rate == 0 {
		for range concurrency {
			group.Go(func() {
				for time.Now().Before(end) {
					one(sent.Add(1))
				}
			})
		}
	} else {
		// time.Sleep waits in epoll, to a millisecond. A thread of its own sleeps to some 50 us; calls need another one.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		runtime.LockOSThread()
		interval := time.Second / time.Duration(rate)
		for due := began; due.Before(end); due = due.Add(interval) {
			if rest := time.Until(due); rest > 0 {
				timespec := syscall.NsecToTimespec(rest.Nanoseconds())
				_ = syscall.Nanosleep(&timespec, nil)
			}
			lateness = append(lateness, time.Since(due).Seconds()*1000)
			n := sent.Add(1)
			group.Go(func() { one(n) })
		}
	}
	group.Wait()
	quantile := func(values []float64, share float64) float64 {
		if len(values) == 0 {
			return 0
		}
		slices.Sort(values)
		return values[min(len(values)-1, int(float64(len(values))*share))]
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"calls":     len(latencies),
		"failed":    failed.Load(),
		"mutations": mutations.Load(),
		"seconds":   time.Since(began).Seconds(),
		"p50":       quantile(latencies, .5),
		"p99":       quantile(latencies, .99),
		"p999":      quantile(latencies, .999),
		"late":      quantile(lateness, .99),
	}))
}

func main() {
	number := func(n int) int {
		value, err := strconv.Atoi(os.Args[n])
		check(err)
		return value
	}
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		serve(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "call":
		call(os.Args[2], os.Args[3])
	case len(os.Args) == 7 && os.Args[1] == "load":
		load(os.Args[2], number(3), number(4), number(5), number(6))
	default:
		fmt.Fprintln(os.Stderr, "usage: agent-peer serve|call|load …")
		os.Exit(64)
	}
}
