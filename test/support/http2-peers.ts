/** Servers of HTTP/2 that are not Node.js, as endpoints of suppliers: nghttpx, and net/http of Go. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endWithTest } from './children.ts'
import { freePort } from './postgres.ts'
import { startLimit, until } from './until.ts'

const isAbsent = (command: string, flag: string) =>
  spawnSync(command, [flag]).status === 0 ? false : `${command} not found`
export const nghttpxAbsent = isAbsent('nghttpx', '--version')
export const goAbsent = isAbsent('go', 'version')

export interface Peer {
  url: string
  /** Its signal for the end after the requests in flight; resolves when it has ended. */
  end(): Promise<void>
}

const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })

async function start(
  command: string,
  argv: readonly string[],
  port: number,
  signal: NodeJS.Signals,
) {
  const child = endWithTest(spawn(command, argv, { stdio: ['ignore', 'ignore', 'pipe'] }))
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += String(chunk)
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  await until(
    async () => {
      if (child.exitCode !== null) throw new Error(`${command} ended: ${said}`)
      return accepts(port)
    },
    { what: `${command} listens`, limit: startLimit },
  )
  // It ends with the process of the test, which it must not keep from ending.
  const stderr = child.stderr as Socket
  stderr.unref()
  child.unref()
  return {
    async end() {
      child.ref()
      child.kill(signal)
      await ended
    },
  }
}

interface Pair {
  cert: string
  key: string
}

function filesOf(folder: string, { cert, key }: Pair): [cert: string, key: string] {
  const files: [string, string] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  writeFileSync(files[0], cert)
  writeFileSync(files[1], key, { mode: 0o600 })
  return files
}

/** `pair`: over TLS; without it by prior knowledge. It passes requests on to the HTTP/1.1 server at `backend`. */
export async function startNghttpx(backend: string, pair?: Pair, streams = 100): Promise<Peer> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-nghttpx-'))
  const { hostname, port: backendPort } = new URL(backend)
  const { end } = await start(
    'nghttpx',
    [
      ...['--conf=/dev/null', '--workers=1', '--no-ocsp', '--log-level=ERROR'],
      `--frontend=127.0.0.1,${port}${pair === undefined ? ';no-tls' : ''}`,
      ...[`--backend=${hostname},${backendPort}`, '--accesslog-file=/dev/null'],
      ...[`--frontend-http2-max-concurrent-streams=${streams}`],
      ...(pair === undefined ? [] : filesOf(folder, pair).toReversed()),
    ],
    port,
    'SIGQUIT',
  )
  return { url: `${pair === undefined ? 'http' : 'https'}://127.0.0.1:${port}/bid`, end }
}

const goServer = `package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	server := &http.Server{Addr: os.Args[1], Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Query().Get("do") == "abort" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Proto", r.Proto)
		w.Write(append(append([]byte("{\\"echo\\":"), body...), '}'))
	})}
	over := make(chan struct{})
	go func() {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		<-asked
		server.Shutdown(context.Background())
		close(over)
	}()
	if err := server.ListenAndServeTLS(os.Args[2], os.Args[3]); err != http.ErrServerClosed {
		panic(err)
	}
	<-over
}
`

/** It echoes bodies, and with `?do=abort` resets the stream. */
export async function startGo(pair: Pair): Promise<Peer> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-go-'))
  writeFileSync(join(folder, 'main.go'), goServer)
  const binary = join(folder, 'server')
  execFileSync('go', ['build', '-o', binary, join(folder, 'main.go')], {
    ...{ stdio: 'pipe', cwd: folder },
    env: { ...process.env, CGO_ENABLED: '0' },
  })
  const port = await freePort()
  const address = `127.0.0.1:${port}`
  const { end } = await start(binary, [address, ...filesOf(folder, pair)], port, 'SIGTERM')
  return { url: `https://${address}/bid`, end }
}
