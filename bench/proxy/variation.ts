/**
 * What the cost of a request follows on this machine: short windows of the mix in turns, with reads of memory, and
 * operations without memory, between them.
 */
import type { Run } from '../harness/bench.ts'
import type { Block } from '../harness/report.ts'
import { mean, quantile } from '../harness/statistics.ts'

/** Words of the memory that is read, and reads of one measurement. */
const sizes = [
  { label: '8 KB', words: 2 ** 11, reads: 10_000_000 },
  { label: '1 MB', words: 2 ** 18, reads: 3_000_000 },
  { label: '8 MB', words: 2 ** 21, reads: 1_000_000 },
  { label: '64 MB', words: 2 ** 24, reads: 500_000 },
]

/** Each word is the position of the next one; one cycle of all words, in a random order. */
function cycleOf(words: number): Int32Array {
  const order = Int32Array.from({ length: words }, (_each, index) => index)
  for (let index = words - 1; index > 0; index--) {
    const other = Math.floor(Math.random() * index)
    const swapped = order[index]!
    order[index] = order[other]!
    order[other] = swapped
  }
  const next = new Int32Array(words)
  for (let index = 0; index < words; index++) next[order[index]!] = order[(index + 1) % words]!
  return next
}

/** Nanoseconds of a read whose address the read before it gives. */
function readTime(cycle: Int32Array, reads: number): number {
  let position = 0
  const began = performance.now()
  for (let count = 0; count < reads; count++) position = cycle[position]!
  const took = performance.now() - began
  if (position < 0) throw new Error('not a cycle')
  return (took * 1e6) / reads
}

/**
 * Nanoseconds of a round of eight operations that need neither memory nor each other's results: they are slower if the processor has
 * a lower frequency, or if another thread, of whoever shares the machine, uses the units of this core.
 */
function computeTime(rounds: number): number {
  let [a, b, c, d, e, f, g, h] = [1, 2, 3, 4, 5, 6, 7, 8]
  const began = performance.now()
  for (let count = 0; count < rounds; count++) {
    a = (a! + (count ^ 3)) | 0
    b = (b! ^ (count << 1)) | 0
    c = (c! + (count & 7)) | 0
    d = (d! ^ (count + 5)) | 0
    e = (e! + (count | 9)) | 0
    f = (f! ^ (count >> 1)) | 0
    g = (g! + (count ^ 6)) | 0
    h = (h! ^ (count - 4)) | 0
  }
  const took = performance.now() - began
  if (!Number.isInteger(a! + b! + c! + d! + e! + f! + g! + h!)) throw new Error('not computed')
  return (took * 1e6) / rounds
}

/** Rounds of one measurement. */
const computeRounds = 20_000_000

function correlation(one: readonly number[], other: readonly number[]): number {
  const [center, otherCenter] = [mean(one), mean(other)]
  const sum = (product: (index: number) => number) =>
    one.reduce((total, _value, index) => total + product(index), 0)
  const both = sum((n) => (one[n]! - center) * (other[n]! - otherCenter))
  const squares = sum((n) => (one[n]! - center) ** 2)
  return both / Math.sqrt(squares * sum((n) => (other[n]! - otherCenter) ** 2))
}

/** @param measure CPU microseconds of a request, of bidweir and of nginx, each in a window of so many milliseconds */
export async function variation(
  { quick, say }: Pick<Run, 'quick' | 'say'>,
  measure: (ms: number) => Promise<Readonly<Record<string, number>>>,
): Promise<Block[]> {
  const cycles = sizes.map(({ words, ...rest }) => ({ ...rest, cycle: cycleOf(words) }))
  const [rounds, window] = quick ? [4, 200] : [60, 600]
  const figures = new Map<string, number[]>()
  const add = (label: string, value: number) => {
    const all = figures.get(label) ?? []
    figures.set(label, all)
    all.push(value)
  }
  for (let round = 0; round < rounds; round++) {
    for (const [label, cost] of Object.entries(await measure(window)))
      add(`${label}, us a request`, cost)
    for (const { label, reads, cycle } of cycles)
      add(`a read of ${label}, ns`, readTime(cycle, quick ? reads / 10 : reads))
    add(
      'eight operations in registers, ns',
      computeTime(quick ? computeRounds / 10 : computeRounds),
    )
    if (round % 20 === 19) say(`  ${round + 1} of ${rounds} rounds`)
  }
  const [bidweir] = [...figures.values()] as [number[]]
  const rows = [...figures].map(([label, all]) => [
    label,
    ...[0.1, 0.5, 0.9].map((share) => quantile(all, share).toFixed(1)),
    correlation(all, bidweir).toFixed(2),
  ])
  return [
    `${rounds} rounds of windows of ${window} ms. A read has the address that the read before it returned, so none begins before the other ends.`,
    { head: ['', '10 %', 'median', '90 %', 'correlation with the first row'], rows },
  ]
}
