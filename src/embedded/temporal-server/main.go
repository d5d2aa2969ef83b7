// Command temporal is the server that `npm start` runs where the Temporal CLI cannot be downloaded: the same server and UI,
// built from the public Go modules of go.mod. It accepts the arguments of the CLI's `temporal server start-dev` that
// src/embedded/temporal.ts passes.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
	uiversion "github.com/temporalio/ui-server/v2/server/version"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const clusterName = "active"

type options struct {
	ip, uiIP, uiCodec, dbFile, logLevel, logFormat string
	port, httpPort, uiPort                         int
	headless, noNews                               bool
	namespaces                                     []string
	pragmas                                        map[string]string
	searchAttributes                               map[string]enums.IndexedValueType
	dynamicConfig                                  dynamicconfig.StaticClient
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Printf("temporal (Server %s, UI %s)\n", headers.ServerVersion, uiversion.UIVersion)
		return nil
	}
	if len(args) < 2 || args[0] != "server" || args[1] != "start-dev" {
		return fmt.Errorf("usage: temporal --version | temporal server start-dev [options]")
	}
	opts, err := parse(args[2:])
	if err != nil {
		return err
	}
	server, err := newServer(opts)
	if err != nil {
		return err
	}
	if !opts.headless {
		ui := newUI(opts)
		defer ui.Stop()
		go func() {
			if err := ui.Start(); err != nil {
				fmt.Fprintln(os.Stderr, "the UI failed:", err)
				os.Exit(1)
			}
		}()
	}
	// until a signal arrives
	return server.Start()
}

// parse reads the options of `server start-dev`.
func parse(args []string) (*options, error) {
	opts := &options{
		namespaces:       []string{"default"},
		pragmas:          map[string]string{},
		searchAttributes: map[string]enums.IndexedValueType{},
		dynamicConfig:    dynamicconfig.StaticClient{},
	}
	flags := flag.NewFlagSet("server start-dev", flag.ContinueOnError)
	flags.StringVar(&opts.ip, "ip", "127.0.0.1", "address of the gRPC API and of all internal services")
	flags.IntVar(&opts.port, "port", 7233, "port of the gRPC API")
	flags.IntVar(&opts.httpPort, "http-port", 0, "port of the HTTP API; 0: none")
	flags.StringVar(&opts.dbFile, "db-filename", "", "database file; none: in memory")
	flags.BoolVar(&opts.headless, "headless", false, "without the UI")
	flags.BoolVar(&opts.noNews, "ui-disable-news-fetch", false, "the UI fetches no news from outside")
	flags.StringVar(&opts.uiIP, "ui-ip", "127.0.0.1", "address of the UI")
	flags.IntVar(&opts.uiPort, "ui-port", 8233, "port of the UI")
	flags.StringVar(&opts.uiCodec, "ui-codec-endpoint", "", "codec server of the UI")
	flags.StringVar(&opts.logLevel, "log-level", "warn", "debug, info, warn or error")
	flags.StringVar(&opts.logFormat, "log-format", "json", "json or console")
	flags.Func("namespace", "created when absent; repeatable", func(value string) error {
		opts.namespaces = append(opts.namespaces, value)
		return nil
	})
	flags.Func("sqlite-pragma", "NAME=VALUE; repeatable", pair(func(name, value string) error {
		opts.pragmas[name] = value
		return nil
	}))
	flags.Func("search-attribute", "NAME=TYPE of new namespaces; repeatable", pair(func(name, value string) error {
		kind, err := enums.IndexedValueTypeFromString(value)
		opts.searchAttributes[name] = kind
		return err
	}))
	flags.Func("dynamic-config-value", "KEY=JSON; repeatable", pair(func(name, value string) error {
		parsed, err := dynamicValue(value)
		opts.dynamicConfig[dynamicconfig.MakeKey(name)] = parsed
		return err
	}))
	return opts, flags.Parse(args)
}

func pair(set func(name, value string) error) func(string) error {
	return func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return fmt.Errorf("%q is not NAME=VALUE", text)
		}
		return set(name, value)
	}
}

// dynamicValue reads JSON; whole numbers become int, the only integer type of dynamic configuration.
func dynamicValue(text string) (any, error) {
	decoder := json.NewDecoder(bytes.NewBufferString(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	number, isNumber := value.(json.Number)
	if !isNumber {
		return value, nil
	}
	if whole, err := number.Int64(); err == nil {
		return int(whole), nil
	}
	return number.Float64()
}

func newUI(opts *options) *uiserver.Server {
	return uiserver.NewServer(server_options.WithConfigProvider(&uiconfig.Config{
		Host:                opts.uiIP,
		Port:                opts.uiPort,
		TemporalGRPCAddress: fmt.Sprintf("%s:%d", opts.ip, opts.port),
		EnableUI:            true,
		Codec:               uiconfig.Codec{Endpoint: opts.uiCodec},
		CORS:                uiconfig.CORS{CookieInsecure: true},
		HideLogs:            true,
		DisableNewsFetch:    opts.noNews,
	}))
}

// newServer makes all four services of Temporal with one history shard, as the CLI does, and unlike it without the HTTP API.
func newServer(opts *options) (temporal.Server, error) {
	store, err := prepareStore(opts)
	if err != nil {
		return nil, err
	}
	services := map[string]config.Service{}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, name := range []primitives.ServiceName{
		primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
	} {
		rpc := config.RPC{GRPCPort: opts.port, HTTPPort: opts.httpPort, BindOnIP: opts.ip}
		if name != primitives.FrontendService {
			if rpc.GRPCPort, err = freePort(opts.ip); err != nil {
				return nil, err
			}
			rpc.HTTPPort = 0
		}
		services[string(name)] = config.Service{RPC: rpc}
		hosts[name] = static.SingleLocalHost(fmt.Sprintf("%s:%d", opts.ip, rpc.GRPCPort))
	}
	address := fmt.Sprintf("%s:%d", opts.ip, opts.port)
	conf := &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: opts.ip},
		},
		Persistence: config.Persistence{
			DefaultStore:     "sqlite",
			VisibilityStore:  "sqlite",
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{"sqlite": {SQL: store}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address, ClusterID: uuid.NewString()},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		PublicClient: config.PublicClient{HostPort: address},
	}
	return temporal.NewServer(
		temporal.WithConfig(conf),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(log.NewZapLogger(log.BuildZapLogger(log.Config{Level: opts.logLevel, Format: opts.logFormat}))),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(opts.dynamicConfig),
		temporal.InterruptOn(temporal.InterruptCh()),
	)
}

// prepareStore creates the database file when it is absent, and the namespaces that it lacks.
func prepareStore(opts *options) (*config.SQL, error) {
	store := &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: opts.dbFile}
	if opts.dbFile == "" {
		store.DatabaseName = uuid.NewString()
		store.ConnectAttributes = map[string]string{"mode": "memory", "cache": "shared"}
	} else {
		store.ConnectAttributes = map[string]string{"mode": "rwc"}
	}
	for name, value := range opts.pragmas {
		store.ConnectAttributes[name] = value
	}
	if _, err := os.Stat(opts.dbFile); opts.dbFile != "" && os.IsNotExist(err) {
		if err := sqlite.SetupSchema(store); err != nil {
			return nil, fmt.Errorf("the schema of %s was not created: %w", opts.dbFile, err)
		}
	}
	var namespaces []*sqlite.NamespaceConfig
	for _, name := range opts.namespaces {
		namespace, err := sqlite.NewNamespaceConfig(clusterName, name, false, opts.searchAttributes)
		if err != nil {
			return nil, err
		}
		namespaces = append(namespaces, namespace)
	}
	if err := sqlite.CreateNamespaces(store, namespaces...); err != nil {
		return nil, fmt.Errorf("the namespaces were not created: %w", err)
	}
	return store, nil
}

// freePort returns a port that nothing listens at now.
func freePort(ip string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
