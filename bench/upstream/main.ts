/**
 * `npm run bench:upstream`: requests that are lost while one of three endpoints of a supplier is killed, hangs, resets its
 * connections, is slow, answers 503, or comes and goes: bidweir with and without health checks, HAProxy and nginx with the same
 * settings. About six minutes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bench, type Run } from '../harness/bench.ts'
import { startHaproxy, startProgram } from '../harness/child.ts'
import { drive } from '../harness/client.ts'
import { firstLine, haproxyVersion } from '../harness/machine.ts'
import type { Block, Cell } from '../harness/report.ts'
import { startService, supplier } from '../harness/service.ts'
import { requestHead } from '../harness/traffic.ts'
import { Endpoint, type Fault, faults } from './endpoint.ts'

const options = {
  rounds: { value: 2, least: 1, help: 'of each fault; the sums are shown' },
  rate: { value: 200, least: 1, help: 'requests a second' },
  faults: {
    value: faults.join(),
    help: 'faults, with commas between them',
    valid: (text: string) => text.split(',').every((name) => faults.includes(name as Fault)),
  },
}
type UpstreamRun = Run<typeof options>

/** Milliseconds. */
const deadline = 300
const times = { before: 500, fault: 4000, after: 1500, flap: 700 }

/** The same for all: five failures in a row, a second out, two checks a second apart. */
const haproxyConfig = (ports: readonly number[], port: number) => `defaults
  mode http
  timeout client 10s
  timeout connect ${deadline}ms
  timeout server ${deadline}ms
  timeout check ${deadline}ms
  retries 1
  option redispatch 1
listen bids
  bind 127.0.0.1:${port}
  balance random(2)
  option httpchk GET /health
  default-server check inter 1s fall 2 rise 2 observe layer7 error-limit 5 on-error mark-down
${ports.map((port, index) => `  server endpoint${index} 127.0.0.1:${port}`).join('\n')}
`

const nginxConfig = (ports: readonly number[], port: number, dir: string) => `
worker_processes 1; daemon off; pid ${dir}/nginx.pid; error_log ${dir}/error.log crit;
events { worker_connections 4000; }
http {
  access_log off;
  client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy; fastcgi_temp_path ${dir}/f;
  uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
  upstream supplier {
    zone supplier 64k; random two least_conn; keepalive 64;
    ${ports.map((port) => `server 127.0.0.1:${port} max_fails=5 fail_timeout=1s;`).join(' ')}
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://supplier; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_connect_timeout ${deadline}ms; proxy_read_timeout ${deadline}ms;
      proxy_next_upstream error timeout http_503; proxy_next_upstream_tries 2;
    }
  }
}
`

interface Subject {
  name: string
  start(ports: readonly number[]): Promise<AsyncDisposable & { port: number }>
}

const healthCheck = {
  ...{ path: '/health', interval: '1s', timeout: `${deadline}ms` },
  ...{ healthyAfter: 2, unhealthyAfter: 2 },
}

const bidweir = (name: string, more: object): Subject => ({
  name,
  async start(ports) {
    const endpoints = ports.map((port) => `http://127.0.0.1:${port}/openrtb`)
    const outliers = { consecutive: 5, baseEjection: '1s', maxEjection: '1s' }
    const route = { timeout: `${deadline}ms`, onFailure: 'status', endpoints, outliers, ...more }
    const service = await startService({
      suppliers: [supplier('acme', endpoints[0]!, route)],
      log: { level: 'error' },
    })
    return Object.assign(service, { port: service.proxy })
  },
})

const haproxy: Subject = {
  name: 'HAProxy',
  start: (ports) => startHaproxy((port) => haproxyConfig(ports, port)),
}

const nginx: Subject = {
  name: 'nginx',
  start: (ports) =>
    startProgram((dir, port) => {
      writeFileSync(join(dir, 'nginx.conf'), nginxConfig(ports, port, dir))
      return ['nginx', '-p', dir, '-c', join(dir, 'nginx.conf')]
    }),
}

const body = '{"id":"r","imp":[{"id":"1","banner":{"w":1}}]}'
const request = Buffer.from(`${requestHead('/bid/acme', body.length)}${body}`)

/** Requests and those of them that were lost: answered with another status than 200, or not at all. */
async function lost(subject: Subject, fault: Fault, rate: number) {
  await using stack = new AsyncDisposableStack()
  const endpoints: Endpoint[] = []
  for (let n = 0; n < 3; n++) endpoints.push(stack.use(await new Endpoint(2 * deadline).listen()))
  const proxy = stack.use(await subject.start(endpoints.map(({ port }) => port)))
  const [broken] = endpoints as [Endpoint]
  const warm = 500
  const timers = [
    setTimeout(() => broken.begin(fault, times.flap), warm + times.before),
    setTimeout(() => broken.end(), warm + times.before + times.fault),
  ]
  stack.defer(() => timers.forEach(clearTimeout))
  const { count, failed, kinds } = await drive({
    ...{ port: proxy.port, connections: 0, rate, warm },
    measure: times.before + times.fault + times.after,
    next: () => request,
    kind: ({ status }) => (status === 200 ? 'good' : 'lost'),
  })
  return { requests: count + failed, lost: (kinds['lost']?.count ?? 0) + failed }
}

async function sideBySide(run: UpstreamRun): Promise<Block[]> {
  const { rate } = run.options
  const rounds = run.quick ? 1 : run.options.rounds
  const subjects = [bidweir('bidweir', { healthCheck }), bidweir('bidweir, without checks', {})]
  if (haproxyVersion() === null) run.missing('HAProxy: haproxy not found')
  else subjects.push(haproxy)
  if (firstLine('nginx', '-v') === null) run.missing('nginx: nginx not found')
  else subjects.push(nginx)
  const rows: Cell[][] = []
  let requests = 0
  for (const fault of run.options.faults.split(',') as Fault[]) {
    const cells: Cell[] = [fault]
    for (const subject of subjects) {
      let sum = 0
      requests = 0
      for (let round = 0; round < rounds; round++) {
        const found = await lost(subject, fault, rate)
        sum += found.lost
        requests += found.requests
      }
      run.say(`${fault}, ${subject.name}: ${sum} of ${requests}`)
      cells.push(sum)
    }
    rows.push(cells)
  }
  return [
    `Lost requests of ${requests}, while one of three endpoints has the fault for ${times.fault / 1000} of ${(times.before + times.fault + times.after) / 1000} s.`,
    { head: ['the endpoint', ...subjects.map(({ name }) => name)], rows },
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'Faults of an endpoint',
  about: `One of three endpoints fails under ${options.rate.value} requests a second, with a deadline of ${deadline} ms. All have the same settings: five failures in a row, one second out, health checks a second apart of which two in a row decide, one attempt more if the request was not sent. nginx has no active checks, and is configured to try again after a 503, which it does not do for a POST.`,
  options,
  programs: () => [haproxyVersion(), firstLine('nginx', '-v')],
  sections: { faults: { title: 'Requests lost at each fault', run: sideBySide } },
})
