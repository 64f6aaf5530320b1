// go-ycsb with its binding for Redis alone: its own program needs the clients of many databases.
//
//	ycsb load|run NAME=VALUE...
//
// The properties are those of go-ycsb: recordcount, operationcount, threadcount, redis.addr and so on.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	_ "github.com/pingcap/go-ycsb/db/redis"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"

	"github.com/magiconair/properties"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "load" && os.Args[1] != "run" {
		log.Fatal("usage: ycsb load|run NAME=VALUE...")
	}
	props := properties.NewProperties()
	for _, property := range os.Args[2:] {
		name, value, found := strings.Cut(property, "=")
		if !found {
			log.Fatalf("%s: not of the form NAME=VALUE", property)
		}
		props.Set(name, value)
	}
	if os.Args[1] == "load" {
		props.Set(prop.DoTransactions, "false")
	}
	measurement.InitMeasure(props)

	workload, err := ycsb.GetWorkloadCreator("core").Create(props)
	if err != nil {
		log.Fatal(err)
	}
	defer workload.Close()
	db, err := ycsb.GetDBCreator("redis").Create(props)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	start := time.Now()
	client.NewClient(props, workload, client.DbWrapper{DB: db}).Run(context.Background())
	log.Printf("took %s", time.Since(start))
	measurement.Output()
}
