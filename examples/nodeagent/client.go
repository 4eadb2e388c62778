package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// askTimeout bounds a request that the agent answers at once.
const askTimeout = 30 * time.Second

// maxAnswer bounds an answer that is held in memory as a whole.
const maxAnswer = 256 << 20

// reach says where the running agent is.
type reach struct {
	config, root, listen, tokenFile string
	patience                        time.Duration
}

func (r *reach) register(flags *pflag.FlagSet) {
	flags.StringVar(&r.config, "config", os.Getenv(configVariable), "the running agent's configuration, which says where it is")
	flags.StringVar(&r.root, "root", defaultRoot(), "the running agent's folder, with its socket")
	flags.StringVar(&r.listen, "listen", "", "the running agent's --listen (default unix:ROOT/nodeagent.sock)")
	flags.StringVar(&r.tokenFile, "listen-token-file", "", "file with the token, for HOST:PORT (default ROOT/nodeagent.token)")
	flags.DurationVar(&r.patience, "timeout", askTimeout, "how long to wait for an agent that does not answer")
}

// open returns the agent's client, without connecting.
func (r *reach) open(flags *pflag.FlagSet) (*apiClient, error) {
	if err := r.configured(flags); err != nil {
		return nil, exit{codeUsage, err}
	}
	if r.patience <= 0 {
		return nil, exit{codeUsage, fmt.Errorf("--timeout %v: want more than 0, as in 10s", r.patience)}
	}
	api, err := openClient(r.root, r.listen, r.tokenFile)
	if err != nil {
		return nil, err
	}
	api.patience = r.patience
	return api, nil
}

// configuredAgent returns the options of the agent that a configuration file is for, nil without a file.
func configuredAgent(file string) (*options, error) {
	if file == "" {
		return nil, nil
	}
	var agent options
	all := pflag.NewFlagSet("nodeagent run", pflag.ContinueOnError)
	agent.register(all)
	return &agent, readConfigFile(all, file)
}

// configured reads from the agent's configuration what the command line does not set.
func (r *reach) configured(flags *pflag.FlagSet) error {
	agent, err := configuredAgent(r.config)
	if err != nil || agent == nil {
		return err
	}
	if !flags.Changed("root") {
		r.root = agent.root
	}
	if !flags.Changed("listen-token-file") {
		r.tokenFile = agent.api.tokenFile
	}
	if flags.Changed("listen") || flags.Changed("root") {
		return nil
	}
	for _, address := range agent.api.texts { // a socket needs no token
		if r.listen == "" || strings.HasPrefix(address, "unix:") && !strings.HasPrefix(r.listen, "unix:") {
			r.listen = address
		}
	}
	return nil
}

// apiClient sends requests to a running agent.
type apiClient struct {
	address address
	http    *http.Client
	base    string
	token   string // "" on a socket
	// patience is how long an agent may take to answer.
	patience time.Duration
}

// openClient finds the agent of a folder, or at an address as in --listen; on TCP it needs the
// token.
func openClient(root, listen, tokenFile string) (*apiClient, error) {
	c := &apiClient{patience: askTimeout}
	var err error
	switch {
	case listen != "":
		c.address, err = parseAddress(listen)
	case root != "":
		c.address, err = defaultAddress(root)
	default:
		err = errors.New("--root or --listen is required: there is no home folder to look in")
	}
	if err != nil {
		return nil, exit{codeUsage, err}
	}
	c.http, c.base = c.address.client()
	if c.address.socket != "" {
		return c, nil
	}
	if tokenFile == "" {
		tokenFile = defaultTokenFile(root)
	}
	if c.token, err = readToken(tokenFile); err != nil {
		return nil, exit{codeUnreachable, fmt.Errorf("--listen-token-file: %w", err)}
	}
	return c, nil
}

// get requests a path. The caller closes the body.
func (c *apiClient) get(ctx context.Context, path string) (*http.Response, error) {
	return c.do(ctx, http.MethodGet, path)
}

func (c *apiClient) do(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	c.authorize(request.Header)
	request.Header.Set("TE", "trailers") // errorTrailer
	return c.http.Do(request)
}

func (c *apiClient) authorize(header http.Header) {
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
}

// open begins an answer that may not end; the caller closes its body. Every status but success
// becomes an error that says what to do. While the answer lasts, the agent is asked periodically
// whether it is healthy: the answer of an agent that hangs ends.
func (c *apiClient) open(ctx context.Context, method, path string) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := c.whileAlive(ctx, cancel)
	response, err := c.do(ctx, method, path)
	if err != nil {
		stop()
		return nil, c.unreachable(causeOf(ctx, err))
	}
	response.Body = &watchedBody{ReadCloser: response.Body, ctx: ctx, stop: stop}
	if err := c.accept(method, path, response); err != nil {
		_ = response.Body.Close() // the agent has said what counts
		return nil, err
	}
	return response, nil
}

// errTooLong refuses a command that does not fit into a request.
var errTooLong = exit{codeUsage, fmt.Errorf("the request is too long: the agent takes %d KiB; pass long input on standard input, with exec -i", maxHeader>>10)}

// errHangs is why the answer of a hanging agent ends.
var errHangs = errors.New("the agent hangs")

// whileAlive cancels when the agent takes longer than c.patience to answer. An agent that refuses
// connections may be ending, and still has to send the rest of its answers.
func (c *apiClient) whileAlive(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(max(c.patience/2, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			asked, done := context.WithTimeout(ctx, c.patience)
			response, err := c.do(asked, http.MethodGet, "/healthz")
			if err == nil {
				err = response.Body.Close()
			}
			done()
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				cancel(errHangs)
			}
		}
	}()
	return func() { cancel(nil); <-over }
}

// causeOf returns err, or the cause of ctx's cancellation if that says more.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errHangs) {
		return errHangs
	}
	return err
}

// watchedBody is the body of an answer that ends when the agent hangs.
type watchedBody struct {
	io.ReadCloser
	ctx  context.Context
	stop func()
}

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = causeOf(b.ctx, err)
	}
	return n, err
}

// Close implements [io.Closer].
func (b *watchedBody) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

// ask returns the whole answer.
func (c *apiClient) ask(ctx context.Context, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	response, err := c.do(ctx, method, path)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer response.Body.Close()
	if err := c.accept(method, path, response); err != nil {
		return nil, err
	}
	return c.whole(response)
}

// whole reads an answer to its end.
func (c *apiClient) whole(response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, c.brokenOff(err)
	}
	if len(body) > maxAnswer {
		return nil, exit{codeUnreachable, fmt.Errorf("the answer of %s has more than %d MiB, so what answers may be no nodeagent", c.address, maxAnswer>>20)}
	}
	return body, nil
}

// accept checks that the answer is of this API version, and a success.
func (c *apiClient) accept(method, path string, response *http.Response) error {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return exit{codeUnreachable, fmt.Errorf("the agent at %s knows another token; --listen-token-file names the file with its own", c.address)}
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return exit{codeUnreachable, fmt.Errorf("the agent at %s refuses: %s", c.address, errorText(response))}
	case http.StatusRequestHeaderFieldsTooLarge: // from net/http, before the agent could say its version
		return errTooLong
	}
	if err := checkVersion(response.Header.Get(versionHeader)); err != nil {
		return exit{codeUnreachable, fmt.Errorf("%s: %w", c.address, err)}
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	text, byAgent := saidOf(response)
	switch {
	case !byAgent && (response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusMethodNotAllowed):
		path, _, _ = strings.Cut(path, "?")
		return exit{codeUnreachable, fmt.Errorf("the agent at %s knows no %s %s, so it is older than this program: restart it with this program (its pods go on)", c.address, method, path)}
	}
	return refused(response.StatusCode, text)
}

// refused is the error of a request that the agent refused with this status code.
func refused(status int, text string) error {
	switch status {
	case http.StatusNotFound:
		return exit{codeNotFound, errors.New(text)}
	case http.StatusBadRequest:
		return exit{codeUsage, errors.New(text)}
	}
	return errors.New(text)
}

// errorText is the error that an answer reports.
func errorText(response *http.Response) string {
	text, _ := saidOf(response)
	return text
}

// saidOf returns the error that an answer reports. byAPI says whether it has the form of the API's
// errors; the answer for an unknown path does not.
func saidOf(response *http.Response) (text string, byAPI bool) {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // even a partial body says most
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		return said.Error, true
	}
	if text := strings.TrimSpace(string(body)); text != "" {
		return text, false
	}
	return "the agent answers " + response.Status, false
}

// unreachable says why the agent does not answer, and what to do.
func (c *apiClient) unreachable(err error) error {
	socket := c.address.socket != ""
	var text string
	switch {
	case errors.Is(err, errHangs), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		text = fmt.Sprintf("the agent at %s has not answered within %v: it, or the container runtime, hangs; its log says more", c.address, c.patience)
	case errors.Is(err, context.Canceled):
		return exit{codeFailed, errors.New("interrupted")}
	case socket && errors.Is(err, syscall.ECONNREFUSED) && !isSocket(c.address.socket):
		text = fmt.Sprintf("%s is no socket, so no agent answers there; say where it is with --root, --listen or --config", c.address.socket)
	case socket && errors.Is(err, syscall.ENOTDIR):
		text = fmt.Sprintf("there can be no socket %s: a part of its path is no folder; say where the agent is with --root, --listen or --config", c.address.socket)
	case socket && errors.Is(err, fs.ErrNotExist):
		text = fmt.Sprintf("no agent runs here: there is no socket %s; start it with nodeagent run, or say where it is with --root, --listen or --config", c.address.socket)
	case socket && errors.Is(err, fs.ErrPermission):
		text = fmt.Sprintf("the socket %s is for root and the user that the agent runs as; use sudo, or log in as that user", c.address.socket)
	case socket && errors.Is(err, syscall.ECONNREFUSED):
		text = fmt.Sprintf("no agent runs here: the one that made the socket %s was killed; start it again with nodeagent run", c.address.socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		text = fmt.Sprintf("no agent runs at %s; start it with nodeagent run --listen %s, or leave out --listen to use its socket", c.address, c.address)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		text = fmt.Sprintf("the agent at %s has ended", c.address)
	case strings.Contains(err.Error(), "malformed HTTP"): // net/http does not expose this error otherwise
		text = fmt.Sprintf("what answers at %s is no nodeagent: %v", c.address, err)
	default:
		text = fmt.Sprintf("the agent at %s does not answer: %v", c.address, err)
	}
	return exit{codeUnreachable, errors.New(text)}
}

// isSocket reports whether a path leads to a socket.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// brokenOff says why an answer ended early, or cannot be parsed further.
func (c *apiClient) brokenOff(err error) error {
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return unreadableAnswer(bad)
	}
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return unreadableAnswer(bad)
	}
	return c.unreachable(err)
}

// apiVersion is the version of the local API. It changes when an older client would misread an answer.
const apiVersion = 1

// versionHeader is in every answer.
const versionHeader = "Nodeagent-Api"

// checkVersion compares the agent's version with this program's.
func checkVersion(said string) error {
	version, err := strconv.Atoi(said)
	switch {
	case said == "" || err != nil || version < apiVersion:
		return fmt.Errorf("what runs there is older than this program, or no nodeagent: it speaks version %s of the API, and this version %d; restart the agent with this program (its pods go on)", orNone(said), apiVersion)
	case version > apiVersion:
		return fmt.Errorf("the agent is newer than this program: it speaks version %d of the API, and this version %d; use the agent's own program, which /proc/PID/exe of it is", version, apiVersion)
	}
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "0"
	}
	return strconv.Quote(text)
}
