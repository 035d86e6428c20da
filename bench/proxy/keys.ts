/** The CPU time of a no-bid beside that of a copy without the branches of the keys of endpoints, and with the keys. */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Run } from '../harness/bench.ts'
import { Child, newFolder } from '../harness/child.ts'
import type { Block } from '../harness/report.ts'
import { mean, median, standardError } from '../harness/statistics.ts'
import type { ExchangeJob } from './exchange-probe.ts'

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

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

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
    `    const { mirror, headers: rules, settings } = supplier
    const body = this.request.wire
    const sink =
      mirror?.copy({ inbound, body, rules, timeout: settings.timeout }, context, this) ?? this
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

/** A copy of this checkout without the branches; below `again`, a second one. */
function copyWithout() {
  const folder = newFolder()
  for (const name of ['opd', 'proxy', 'package.json'])
    cpSync(join(root, name), join(folder.path, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder.path, 'node_modules'))
  for (const [file, from, to] of branches) {
    const path = join(folder.path, file)
    const source = readFileSync(path, 'utf8')
    if (!source.includes(from)) throw new Error(`${file} does not contain: ${from}`)
    writeFileSync(path, source.replace(from, to))
  }
  for (const name of ['opd', 'proxy', 'package.json'])
    cpSync(join(folder.path, name), join(folder.path, 'again', name), { recursive: true })
  return folder
}

const url = 'http://127.0.0.1:1/openrtb'
/** The copy is measured twice: what differs then is what two equal programs differ by. */
const subjectsOf = (copy: string) => [
  { name: 'without the branches', root: copy, route: { endpoints: [url] } },
  { name: 'the same again', root: `${copy}/again`, route: { endpoints: [url] } },
  { name: 'plain', root, route: { endpoints: [url] } },
  { name: 'with the keys', root, route: keys(url) },
]

export async function costOfKeys({ quick, say }: Pick<Run, 'quick' | 'say'>): Promise<Block[]> {
  using copy = copyWithout()
  const subjects = subjectsOf(copy.path)
  const found = subjects.map(() => ({ us: [] as number[], more: [] as number[] }))
  // What a process compiles differs from that of another one of the same code: several of them.
  for (let n = 0; n < (quick ? 1 : 12); n++) {
    await using probe = new Child<ExchangeJob, number[][]>(
      new URL('exchange-probe.ts', import.meta.url),
    )
    // Another one is compiled first in each process.
    const order = subjects.map((_, index) => (index + n) % subjects.length)
    const rounds = await probe.ask({
      subjects: order.map((index) => subjects[index]!),
      ...{ rounds: quick ? 4 : 40, requests: quick ? 1000 : 10_000 },
    })
    const reference = rounds[order.indexOf(0)]!
    for (const [position, us] of order.map(
      (position, index) => [position, rounds[index]!] as const,
    )) {
      // Of the rounds, one by one: what the machine does meanwhile concerns all alike.
      const more = median(us.map((cost, round) => cost - reference[round]!))
      found[position]!.us.push(median(us))
      found[position]!.more.push(more)
      say(`  ${subjects[position]!.name}: ${median(us).toFixed(3)} us, ${more.toFixed(3)} more`)
    }
  }
  return [
    'CPU time of the exchange of a no-bid, from its head to the account, without sockets, whose cost varies by more than what is looked for. "plain" has none of the keys; "without the branches" is a copy of the program from which everything is cut that a request of such a supplier passes because the keys exist: canary, mirror, outliers, rules of headers, access log. Twelve processes, in each 40 interleaved rounds of 10,000 requests; medians of the rounds, means of the processes, differences round by round with their standard error.',
    {
      head: ['', 'us', `more than ${subjects[0]!.name}`],
      rows: found.map(({ us, more }, index) => [
        ...[subjects[index]!.name, mean(us).toFixed(3)],
        index === 0 ? '' : `${mean(more).toFixed(3)} ± ${standardError(more).toFixed(3)}`,
      ]),
    },
  ]
}
