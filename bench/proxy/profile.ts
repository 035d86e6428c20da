/** Where the CPU time of a request goes, by folders and files, from profiles of V8. */
import type { Profiler } from 'node:inspector'
import { fileURLToPath } from 'node:url'
import type { Run } from '../harness/bench.ts'
import type { Block } from '../harness/report.ts'
import { type Caller, startService, supplier } from '../harness/service.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const kinds = ['no-bid', 'bid', 'vast'] as const
/** Microseconds of a bid from which a file has a row of its own. */
const least = 0.3

type Frame = Profiler.ProfileNode['callFrame']

/** Native functions of Node that write to a socket, system call included. */
const writes = /^(?:write(?:Latin1String|Utf8String|Buffer|v)|encWriteLatin1String)$/

/** The part that a frame's own time belongs to; null: no CPU time. */
function partOf({ functionName, url }: Frame): string | null {
  if (functionName === '(idle)' || functionName === '(root)') return null
  if (functionName === '(program)') return 'event loop, reads and other native code of Node'
  if (functionName === '(garbage collector)') return 'garbage collection'
  if (url === '')
    return writes.test(functionName) ? 'writes to sockets, system call included' : 'functions of V8'
  if (url.startsWith('node:')) return 'JavaScript of Node: sockets, streams, timers'
  if (url.startsWith('wasm:')) return 'WebAssembly: index of JSON, authenticator'
  const file = url.startsWith('file:') ? fileURLToPath(url) : url
  return file.startsWith(root) && !file.includes('/node_modules/')
    ? file.slice(root.length)
    : 'packages'
}

/** Microseconds of each part for one request; `cost`: of the process. */
function partsOf({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile, count: number) {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const parts = new Map<string, number>()
  for (const [index, id] of samples.entries()) {
    const part = partOf(frames.get(id)!)
    if (part === null) continue
    // The time since a sample belongs to that sample.
    const us = Math.max(0, timeDeltas[index + 1] ?? 0)
    parts.set(part, (parts.get(part) ?? 0) + us / count)
  }
  return parts
}

const folderOf = (part: string) =>
  part.endsWith('.ts') ? part.slice(0, part.lastIndexOf('/') + 1) || 'main.ts' : part

export async function profileOfRequests(
  { quick, say }: Pick<Run, 'quick' | 'say'>,
  caller: Caller,
  endpoint: string,
): Promise<Block[]> {
  const probe = new URL('profiler.ts', import.meta.url)
  await using service = await startService({ suppliers: [supplier('bench', endpoint)] }, { probe })
  const load = { port: service.proxy, connections: 64, rate: 0 }
  const ask = (kind: string, measure: number) =>
    caller.ask({ ...load, paths: [`/bid/bench?kind=${kind}`], warm: 0, measure })
  for (const kind of kinds) await ask(kind, quick ? 500 : 10_000)
  const costs: number[] = []
  const parts: Map<string, number>[] = []
  for (const kind of kinds) {
    const before = service.cpu()
    const { count } = await ask(kind, quick ? 500 : 5000)
    costs.push((service.cpu() - before) / count)
    await service.probe<null>()
    const profiled = await ask(kind, quick ? 500 : 5000)
    parts.push(partsOf(await service.probe<Profiler.Profile>(), profiled.count))
    say(`  ${kind}: ${costs.at(-1)!.toFixed(1)} us`)
  }
  return tables(costs, parts)
}

const sum = (values: Iterable<number>) => [...values].reduce((all, value) => all + value, 0)

function tables(costs: readonly number[], parts: readonly Map<string, number>[]): Block[] {
  // The profiler takes time itself: its shares are applied to the CPU time without it.
  const scaled = parts.map((group, index) => {
    const factor = costs[index]! / sum(group.values())
    return new Map([...group].map(([part, us]) => [part, us * factor]))
  })
  const [, ofBid = new Map<string, number>()] = scaled
  const rowsOf = (name: (part: string) => string, from: number) => {
    const sums = scaled.map((counts) => {
      const byName = new Map<string, number>()
      for (const [part, us] of counts) byName.set(name(part), (byName.get(name(part)) ?? 0) + us)
      return byName
    })
    const names = [...new Set(sums.flatMap((counts) => [...counts.keys()]))]
    const largest = (part: string) => Math.max(...sums.map((counts) => counts.get(part) ?? 0))
    return names
      .filter((part) => largest(part) >= from)
      .sort((one, other) => (sums[1]!.get(other) ?? 0) - (sums[1]!.get(one) ?? 0))
      .map((part) => [part, ...sums.map((counts) => (counts.get(part) ?? 0).toFixed(2))])
  }
  const head = ['own time, us a request', ...kinds]
  return [
    'Own time of functions on the main thread (V8 samples each 250 us, inlined functions apart), as shares of the CPU time of the whole process without the profiler, 64 connections. Time in other threads is thereby part of every row.',
    '### By folder',
    {
      head,
      rows: [...rowsOf(folderOf, 0.05), ['all', ...costs.map((cost) => cost.toFixed(2))]],
    },
    '### By file',
    `Files of bidweir with ${least} us and more.`,
    {
      head,
      rows: rowsOf((part) => part, least).filter(
        ([part]) => ofBid.has(part!) && part!.endsWith('.ts'),
      ),
    },
  ]
}
