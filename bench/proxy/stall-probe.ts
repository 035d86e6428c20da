/**
 * Imported into the service by `bench:proxy -- --only stalls`: the first message starts the watch, the next one ends it and sends
 * what was seen. A timer of a millisecond sees when the event loop does not come back in time.
 */
import { constants, PerformanceObserver } from 'node:perf_hooks'

/** Milliseconds. */
interface Stall {
  start: number
  length: number
  /** CPU time of the main thread meanwhile. The rest of the stall it waited for the processor. */
  cpu: number
  /** Of the collections that ended meanwhile. */
  minor: number
  major: number
}

export interface Stalls {
  stalls: Stall[]
  /** Collections, and their milliseconds. */
  minor: { count: number; ms: number }
  major: { count: number; ms: number }
  ms: number
}

/** Milliseconds between two looks, and from which on a gap is a stall. */
const [interval, shortest] = [1, 2.5]

const collections: { start: number; duration: number; isMajor: boolean }[] = []
const observer = new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const { startTime: start, duration } = entry
    const { kind } = (entry as typeof entry & { detail: { kind: number } }).detail
    collections.push({ start, duration, isMajor: kind !== constants.NODE_PERFORMANCE_GC_MINOR })
  }
})

const cpuMs = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

let gaps: { start: number; length: number; cpu: number }[] = []
let timer: NodeJS.Timeout | null = null
let began = 0

function start(): void {
  gaps = []
  collections.length = 0
  observer.observe({ entryTypes: ['gc'] })
  began = performance.now()
  let [last, cpu] = [began, cpuMs()]
  timer = setInterval(() => {
    const [now, used] = [performance.now(), cpuMs()]
    const length = now - last
    if (length >= shortest) gaps.push({ start: last, length, cpu: used - cpu })
    last = now
    cpu = used
  }, interval)
}

async function end(): Promise<Stalls> {
  if (timer !== null) clearInterval(timer)
  timer = null
  const ms = performance.now() - began
  // Entries of collections come with a delay.
  await new Promise((resolve) => setTimeout(resolve, 100))
  observer.disconnect()
  const longest = (isMajor: boolean, from = began, to = began + ms) =>
    collections
      .filter((pause) => pause.isMajor === isMajor && pause.start >= from && pause.start < to)
      .map(({ duration }) => duration)
  const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0)
  const [minor, major] = [longest(false), longest(true)]
  return {
    ms,
    stalls: gaps.map(({ start, length, cpu }) => ({
      ...{ start: start - began, length, cpu },
      minor: sum(longest(false, start, start + length)),
      major: sum(longest(true, start, start + length)),
    })),
    minor: { count: minor.length, ms: sum(minor) },
    major: { count: major.length, ms: sum(major) },
  }
}

process.on('message', async () => {
  if (timer === null) {
    start()
    process.send!(null)
  } else process.send!(await end())
})
