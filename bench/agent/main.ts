/**
 * `npm run bench:agent`: the agent listener beside a grpc-go server that decodes each call and answers a constant, called by
 * grpc-go. Each server has one core, and the caller another one. About six minutes; `-- --quick` takes one.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { availableParallelism, homedir } from 'node:os'
import { join } from 'node:path'
import { callOf, encodeCall } from '../../test/support/agent.ts'
import { freePort } from '../../test/support/postgres.ts'
import { bench, type Run } from '../harness/bench.ts'
import { startProgram } from '../harness/child.ts'
import { cpu, tree } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { logIn, startService, supplier } from '../harness/service.ts'
import { inTurns, medians } from '../harness/statistics.ts'

/** The peer: `AGENT_PEER`, or built now, which needs Go and Python; null: it cannot be built. */
function peerProgram(): string | null {
  const given = process.env['AGENT_PEER']
  if (given !== undefined) return given
  const script = join(import.meta.dirname, '../../.ci/agent-peer')
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'bidweir')
  try {
    return String(execFileSync(script, [cache], { stdio: ['ignore', 'pipe', 'inherit'] })).trim()
  } catch {
    return null
  }
}
const agentPeer = peerProgram()

interface Subject {
  name: string
  pid: number
  port: number
}

interface State extends AsyncDisposable {
  subjects: readonly Subject[]
}

/** A call of the size that exchanges send: one imp with deals, a site, a device, and a bid with its markup. */
const call = encodeCall(
  callOf({
    bid_request: {
      id: 'auction-1',
      at: 1,
      tmax: 120,
      imp: [
        {
          id: '1',
          tagid: 'header-1',
          bidfloor: 1,
          bidfloorcur: 'USD',
          banner: {
            w: 300,
            h: 250,
            format: [
              { w: 300, h: 250 },
              { w: 320, h: 50 },
            ],
          },
          pmp: {
            deals: Array.from({ length: 5 }, (_, n) => ({ id: `deal-${n}`, bidfloor: 1 + n })),
          },
        },
      ],
      site: {
        id: 's1',
        domain: 'news.example',
        page: 'https://news.example/section/article-1234567',
        publisher: { id: 'p1' },
      },
      device: { devicetype: 4, geo: { country: 'DEU' } },
    },
    bid_response: {
      id: 'auction-1',
      cur: 'USD',
      seatbid: [
        {
          seat: 'seat-1',
          bid: [
            {
              id: 'bid-1',
              impid: '1',
              price: 2.4,
              w: 300,
              h: 250,
              mtype: 1,
              adomain: ['brand.example'],
              nurl: 'https://t.example/win?price=${AUCTION_PRICE}',
              adm: `<div>${'<img src="https://cdn.example/creative.png">'.repeat(30)}</div>`,
            },
          ],
        },
      ],
    },
  }),
)

const pinned = (core: number) => ['-c', String(core)]

/** All threads of a process on the first core. */
function pin(pid: number): void {
  const { status, stderr } = spawnSync('taskset', ['-a', '-p', ...pinned(0), String(pid)])
  if (status !== 0) throw new Error(`taskset: ${stderr}`)
}

/** An agent whose models learn, or set prices alone. */
async function startAgent(freezes: boolean) {
  const port = await freePort()
  const password = randomBytes(12).toString('hex')
  const service = await startService({
    admin: {
      listen: '127.0.0.1:0',
      auth: { embedded: { adminPassword: password } },
      impressions: { auth: 'context' },
    },
    // So that each call is priced, also a late one.
    agent: { listen: `127.0.0.1:${port}`, timeout: '60s' },
    suppliers: [supplier('acme', 'http://127.0.0.1:9/openrtb')],
  })
  if (freezes) {
    const authorization = `Bearer ${await logIn(service.admin, password)}`
    const url = `http://127.0.0.1:${service.admin}/api/svc/models/freeze`
    const answer = await fetch(url, { method: 'POST', headers: { authorization } })
    if (!answer.ok) throw new Error(`freeze: ${answer.status} ${await answer.text()}`)
  }
  return { service, port }
}

async function open(): Promise<State> {
  if (agentPeer === null) return { subjects: [], [Symbol.asyncDispose]: async () => {} }
  await using stack = new AsyncDisposableStack()
  const agents = [await startAgent(true), await startAgent(false)]
  const [frozen, learning] = agents.map(({ service, port }) => {
    stack.use(service)
    return { pid: service.pid, port }
  })
  const go = stack.use(
    await startProgram((_, peerPort) => [
      ...['env', 'GOMAXPROCS=1', agentPeer, 'serve', `127.0.0.1:${peerPort}`],
    ]),
  )
  const subjects: Subject[] = [
    { name: 'bidweir, its model frozen', ...frozen! },
    { name: 'bidweir', ...learning! },
    { name: 'grpc-go, a constant', pid: go.pid, port: go.port },
  ]
  // Those that are not measured are stopped, and must run again to end.
  stack.defer(() => signal(subjects, 'SIGCONT'))
  for (const { pid } of subjects) for (const child of tree(pid)) pin(child)
  const owned = stack.move()
  return { subjects, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

function signal(subjects: readonly Subject[], name: 'SIGSTOP' | 'SIGCONT'): void {
  for (const { pid } of subjects) for (const child of tree(pid)) process.kill(child, name)
}

interface Figures {
  calls: number
  failed: number
  mutations: number
  seconds: number
  p50: number
  p99: number
  p999: number
  /** By how many milliseconds calls were sent late, p99: the caller was too busy. */
  late: number
}

/** `cost`: CPU microseconds of the server for each call. */
type Sample = Figures & { cost: number }

async function load(
  subjects: readonly Subject[],
  subject: Subject,
  rate: number,
  seconds: number,
): Promise<Sample> {
  signal(subjects, 'SIGSTOP')
  signal([subject], 'SIGCONT')
  // First it works off what became due while it was stopped.
  await callAt(subject, rate, 1)
  const before = cpu(tree(subject.pid))
  const figures = await callAt(subject, rate, seconds)
  return { ...figures, cost: (cpu(tree(subject.pid)) - before) / figures.calls }
}

async function callAt({ port }: Subject, rate: number, seconds: number): Promise<Figures> {
  const args = ['load', `127.0.0.1:${port}`, String(rate), String(seconds), '4', '64']
  const caller = spawn('taskset', [...pinned(1), agentPeer!, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let output = ''
  caller.stdout.on('data', (chunk) => {
    output += String(chunk)
  })
  caller.stdin.end(call)
  const [code] = await once(caller, 'close')
  if (code !== 0) throw new Error(`the caller ended with ${code}`)
  return JSON.parse(output) as Figures
}

const ms = (value: number) => value.toFixed(2)

function section(title: string, rate: number) {
  return {
    title,
    absent:
      (agentPeer === null && '.ci/agent-peer cannot be built') ||
      (availableParallelism() < 2 && 'two cores are needed'),
    async run(run: Run, { subjects }: State): Promise<Block[]> {
      const [rounds, seconds] = run.quick ? [1, 3] : [5, 6]
      // Both compile, or grow their heap, before they are measured.
      for (const subject of subjects) await load(subjects, subject, rate, run.quick ? 4 : 12)
      const samples = await inTurns(rounds, subjects, async (subject) => {
        const sample = await load(subjects, subject, rate, seconds)
        const { cost, p99, calls } = sample
        run.say(`  ${subject.name}: ${cost.toFixed(0)} us, p99 ${ms(p99)} ms, ${calls} calls`)
        return sample
      })
      const figures = subjects.map((subject) => medians(samples.get(subject)!))
      const theirs = figures.at(-1)!
      const notes: string[] = []
      if (!run.quick)
        notes.push(
          run.steady(
            'grpc-go itself',
            samples.get(subjects.at(-1)!)!.map(({ cost }) => cost),
          ),
        )
      if (rate > 0 && theirs.late > 1)
        run.refuse(`calls were sent ${ms(theirs.late)} ms late (p99): the machine is too busy`)
      for (const [index, { p99 }] of figures.entries())
        if (rate > 0 && p99 > mostP99)
          run.say(
            `${subjects[index]!.name}: p99 of ${ms(p99)} ms is above the ${mostP99} ms required`,
          )
      return [
        `${call.length} bytes a call. Median of ${rounds} interleaved rounds of ${seconds} s. CPU is all of the process, the kernel's work for it included.`,
        {
          head: [
            ...['agent', 'CPU us/call', 'x grpc-go', 'calls/s'],
            ...['p50 ms', 'p99 ms', 'p99.9 ms', 'failed', 'prices/call'],
          ],
          rows: figures.map((figure, index) => [
            ...[
              subjects[index]!.name,
              figure.cost.toFixed(1),
              (figure.cost / theirs.cost).toFixed(2),
            ],
            ...[
              (figure.calls / figure.seconds).toFixed(0),
              ms(figure.p50),
              ms(figure.p99),
              ms(figure.p999),
            ],
            ...[figure.failed, (figure.mutations / figure.calls).toFixed(2)],
          ]),
        },
        ...notes,
      ]
    },
  }
}

const mostP99 = 2

await bench<Record<never, never>, State>({
  folder: import.meta.dirname,
  title: 'Agent',
  about:
    "Each server runs on one core; the caller, grpc-go with four connections, has another one. The peer decodes each call by Google's Protocol Buffers for Go and answers one constant mutation: it prices nothing and records nothing. bidweir decides and records every bid. Nobody reports a win, so a model that learns soon lowers few prices; one that is frozen lowers each. Servers that are not measured are stopped; one that goes on is called for a second before it is measured. Required: a p99 of at most 2 ms at 2,000 calls/s, and at most 4 times the CPU of grpc-go.",
  open,
  sections: {
    rate: section('2,000 calls/s', 2000),
    saturation: section('Saturation, 64 calls at once', 0),
  },
})
