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

// askTimeout bounds one question to the agent that is answered at once.
const askTimeout = 30 * time.Second

// maxAnswer bounds an answer that is kept whole.
const maxAnswer = 256 << 20

// reach says where the running agent is.
type reach struct {
	config, root, listen, tokenFile string
}

func (r *reach) register(flags *pflag.FlagSet) {
	flags.StringVar(&r.config, "config", os.Getenv(configVariable), "the running agent's configuration, which says where it is")
	flags.StringVar(&r.root, "root", defaultRoot(), "the running agent's folder, with its socket")
	flags.StringVar(&r.listen, "listen", "", "the running agent's --listen (default unix:ROOT/nodeagent.sock)")
	flags.StringVar(&r.tokenFile, "listen-token-file", "", "file with the token, for HOST:PORT (default ROOT/nodeagent.token)")
}

// open returns the agent's client. It connects to nothing.
func (r *reach) open(flags *pflag.FlagSet) (*apiClient, error) {
	if err := r.configured(flags); err != nil {
		return nil, exit{codeUsage, err}
	}
	return openClient(r.root, r.listen, r.tokenFile)
}

// configured takes from the agent's configuration what the command line does not say.
func (r *reach) configured(flags *pflag.FlagSet) error {
	if r.config == "" {
		return nil
	}
	var agent options
	all := pflag.NewFlagSet("nodeagent run", pflag.ContinueOnError)
	agent.register(all)
	if err := readConfigFile(all, r.config); err != nil {
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

// apiClient asks a running agent.
type apiClient struct {
	address address
	http    *http.Client
	base    string
	token   string // "" on a socket
}

// openClient finds the agent of a folder, or at an address as --listen has it; on TCP it
// needs the token.
func openClient(root, listen, tokenFile string) (*apiClient, error) {
	c := &apiClient{}
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

// get asks for a path. The caller closes the body.
func (c *apiClient) get(ctx context.Context, path string) (*http.Response, error) {
	return c.do(ctx, http.MethodGet, path)
}

func (c *apiClient) do(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	c.authorize(request.Header)
	return c.http.Do(request)
}

func (c *apiClient) authorize(header http.Header) {
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
}

// open begins an answer that may go on; its body is the caller's to close. Everything but
// success is an error that says what to do.
func (c *apiClient) open(ctx context.Context, method, path string) (*http.Response, error) {
	response, err := c.do(ctx, method, path)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if err := c.accept(response); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

// ask returns an answer as a whole.
func (c *apiClient) ask(ctx context.Context, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	response, err := c.open(ctx, method, path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(err)
	}
	return body, nil
}

// accept checks that the answer is one of this version's, and a success.
func (c *apiClient) accept(response *http.Response) error {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return exit{codeUnreachable, fmt.Errorf("the agent at %s knows another token; --listen-token-file names the file with its own", c.address)}
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return exit{codeUnreachable, fmt.Errorf("the agent at %s refuses: %s", c.address, errorText(response))}
	}
	if err := checkVersion(response.Header.Get(versionHeader)); err != nil {
		return exit{codeUnreachable, fmt.Errorf("%s: %w", c.address, err)}
	}
	switch {
	case response.StatusCode < 300:
		return nil
	case response.StatusCode == http.StatusNotFound:
		return exit{codeNotFound, errors.New(errorText(response))}
	}
	return errors.New(errorText(response))
}

// errorText is what an answer says is wrong.
func errorText(response *http.Response) string {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // what came says most
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		return said.Error
	}
	if text := strings.TrimSpace(string(body)); text != "" {
		return text
	}
	return "the agent answers " + response.Status
}

// unreachable says why the agent does not answer, and what to do.
func (c *apiClient) unreachable(err error) error {
	socket := c.address.socket != ""
	var text string
	switch {
	case errors.Is(err, context.Canceled):
		return exit{codeFailed, errors.New("interrupted")}
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("the agent at %s has not answered within %v: it, or the container runtime, hangs; its log says more", c.address, askTimeout)
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
	default:
		text = fmt.Sprintf("the agent at %s does not answer: %v", c.address, err)
	}
	return exit{codeUnreachable, errors.New(text)}
}

// apiVersion is the version of the local API. It changes when a client of before would misread an answer.
const apiVersion = 1

// versionHeader is in every answer.
const versionHeader = "Nodeagent-Api"

// checkVersion compares what the agent speaks with what this program does.
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
