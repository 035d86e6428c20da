/** The CPU time of a no-bid beside that of a copy without the branches of the keys of endpoints, and with the keys. */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Run } from '../harness/bench.ts'
import { newFolder } from '../harness/child.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, startService, supplier } from '../harness/service.ts'
import { inTurns, mean, median, standardError } from '../harness/statistics.ts'

/** What the fast lane chooses and sends by. */
const keys = (url: string) => ({
  endpoints: [
    { url, weight: 2, zone: 'a' },
    { url: `${url}?second`, zone: 'a' },
    { url: `${url}?third`, priority: 1 },
  ],
  headers: { set: { 'x-openrtb-version': '2.6' }, remove: ['x-debug'] },
  outliers: { errorShare: 0.3, latencyShare: 0.9 },
  healthCheck: { interval: '5s' },
})

const root = fileURLToPath(new URL('../..', import.meta.url))

/** What each request of a supplier without the keys passes because they exist, and what is there instead in the copy. */
const branches: readonly (readonly [file: string, from: string, to: string])[] = [
  [
    'proxy/upstream/endpoints.ts',
    '    if (this.watches && this.watch(endpoint, ms, false)) return this.slow(endpoint)\n',
    '',
  ],
  ['proxy/upstream/endpoints.ts', ' && last.rules === rules', ''],
  [
    'proxy/exchange/upstream-attempt.ts',
    `    if (this.supplier.canary !== null)
      this.variant ??= this.supplier.isForCanary(body) ? 'canary' : 'main'
`,
    '',
  ],
  [
    'proxy/exchange/upstream-attempt.ts',
    `    const { endpoints, canary } = this.supplier
    return this.variant === 'canary' && canary !== null ? canary.endpoints : endpoints
`,
    '    return this.supplier.endpoints\n',
  ],
  [
    'proxy/exchange/exchange.ts',
    `    const { mirror, headers: rules, route } = supplier
    const body = this.request.wire
    const sink =
      mirror?.copy({ inbound, body, rules, timeout: route.timeout }, context, this) ?? this
    this.upstream.send(this.forwarded, body, context, now, sink)
`,
    '    this.upstream.send(this.forwarded, this.request.wire, context, now, this)\n',
  ],
  ['proxy/exchange/exchange.ts', '    this.countPrices(body)\n    // Calls', '    // Calls'],
  ['proxy/exchange/exchange.ts', '      this.countPrices(body)\n      if', '      if'],
  [
    'proxy/exchange/exchange.ts',
    '    if (variant !== null) metrics.variants?.[variant].finished(outcome, durationMs)\n',
    '',
  ],
  [
    'proxy/exchange/exchange.ts',
    '    if (this.context.accessLog !== null) this.logAccess(this.context.accessLog, outcome, now)\n',
    '',
  ],
]

/** A copy of this checkout without the branches. */
function copyWithout() {
  const folder = newFolder()
  for (const name of ['admin', 'opd', 'proxy', 'service', 'main.ts', 'guard.mjs', 'package.json'])
    cpSync(join(root, name), join(folder.path, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder.path, 'node_modules'))
  for (const [file, from, to] of branches) {
    const path = join(folder.path, file)
    const source = readFileSync(path, 'utf8')
    if (!source.includes(from)) throw new Error(`${file} does not contain: ${from}`)
    writeFileSync(path, source.replace(from, to))
  }
  return folder
}

const names = ['without the branches', 'plain', 'with the keys'] as const
type Name = (typeof names)[number]

export async function costOfKeys(
  { quick, say }: Pick<Run, 'quick' | 'say'>,
  caller: Caller,
  url: string,
): Promise<Block[]> {
  using copy = copyWithout()
  const plain = { suppliers: [supplier('bench', url)] }
  const start: Record<Name, () => ReturnType<typeof startService>> = {
    'without the branches': () => startService(plain, { program: join(copy.path, 'main.ts') }),
    plain: () => startService(plain),
    'with the keys': () =>
      startService({ node: { zone: 'a' }, suppliers: [supplier('bench', url, keys(url))] }),
  }
  const ask = (port: number, measure: number) =>
    caller.ask({
      ...{ port, paths: ['/bid/bench?kind=no-bid'], connections: 64, rate: 0, warm: 0, measure },
    })
  const found = new Map<Name, { us: number[]; more: number[] }>(
    names.map((name) => [name, { us: [], more: [] }]),
  )
  // What a process compiles differs from that of another one of the same code: several of each.
  for (let set = 0; set < (quick ? 1 : 6); set++) {
    await using stack = new AsyncDisposableStack()
    const subjects: { name: Name; service: Awaited<ReturnType<typeof startService>> }[] = []
    for (const name of names) subjects.push({ name, service: stack.use(await start[name]()) })
    for (const { service } of subjects) await ask(service.proxy, quick ? 500 : 6000)
    const samples = await inTurns(quick ? 2 : 10, subjects, async ({ service }) => {
      const from = service.cpu()
      const { total, failed } = await ask(service.proxy, quick ? 300 : 1000)
      return (service.cpu() - from) / (total + failed)
    })
    const reference = samples.get(subjects[0]!)!
    for (const [{ name }, us] of samples) {
      // Of the rounds, one by one: what the machine does meanwhile concerns all alike.
      const more = median(us.map((each, round) => each - reference[round]!))
      found.get(name)!.us.push(median(us))
      found.get(name)!.more.push(more)
      say(`  ${name}: ${median(us).toFixed(2)} us, ${more.toFixed(2)} more`)
    }
  }
  return [
    'CPU time of the process for each no-bid, 64 connections, as many requests as it takes. "plain" has none of the keys; "without the branches" is a copy of the program from which everything is cut that a request of such a supplier passes because the keys exist: canary, mirror, outliers, rules of headers, access log. Six processes of each, ten interleaved rounds of a second; medians of the rounds, means of the processes, differences round by round with their standard error.',
    {
      head: ['', 'us', `more than ${names[0]}`],
      rows: [...found].map(([name, { us, more }]) => [
        ...[name, mean(us).toFixed(2)],
        name === names[0] ? '' : `${mean(more).toFixed(2)} ± ${standardError(more).toFixed(2)}`,
      ]),
    },
  ]
}
