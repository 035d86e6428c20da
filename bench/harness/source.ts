/** The caller of the benchmarks, a process of its own: bid requests, each with an id that was never sent before. */
import { drive, type Load, type Outcome } from './client.ts'
import { bidRequests, requestHead, stamper } from './traffic.ts'

export interface Job
  extends Pick<Load, 'port' | 'connections' | 'rate' | 'warm' | 'measure' | 'watch'> {
  /** Taken in turn, such as `/bid/bench?kind=vast`. */
  paths: readonly string[]
  /** Requests at most. */
  most?: number
}
export type { Outcome } from './client.ts'

/** Every path meets every body. */
function requests(paths: readonly string[]): (() => Buffer)[] {
  return Array.from({ length: paths.length * bidRequests.length }, (_each, at) => {
    const body = bidRequests[Math.floor(at / paths.length) % bidRequests.length]!
    return stamper(Buffer.concat([requestHead(paths[at % paths.length]!, body.length), body]))
  })
}

function run({ paths, most = Number.POSITIVE_INFINITY, ...load }: Job): Promise<Outcome> {
  const ready = requests(paths)
  let sent = 0
  return drive({
    ...load,
    next: () => (sent < most ? ready[sent++ % ready.length]!() : null),
    kind({ status, head }) {
      // A no-bid with a reason is the proxy's own: the supplier never sent it.
      const good = status === 200 || (status === 204 && !/\r\nx-bidweir-reason:/i.test(head))
      return good ? 'good' : 'failed'
    },
  })
}

process.on('message', async (job: Job) => process.send!(await run(job)))
