/**
 * Sends wins and losses at least once: every few seconds a node writes the time before which all of its outcomes are in
 * the log. After a crash, or when outcomes did not fit into the queue, the rows since then are read from the store.
 */
import type { EventMarks } from '../../admin/store/event-marks.ts'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { bareLossEvent, type Notices, type StreamEvent, winEventOf } from './event.ts'
import type { EventStream } from './stream.ts'

/** Milliseconds. */
const every = 5000
/** A notice is recorded within this time of its arrival, by the clock of its node. */
const slack = 60_000
const deadAfter = 60_000

interface CatchUpOptions {
  stream: EventStream
  marks: EventMarks
  noticesOf: (supplier: string | null) => Notices
  /** No other process writes to the store, so every other mark is that of a process that ended. */
  alone: boolean
  now: () => number
  log: Log
}

export function createCatchUp(options: CatchUpOptions) {
  const { stream, marks, noticesOf, alone, now, log } = options
  /** Outcomes that were sent again. */
  const counts = { resent: 0 }
  let mark = now() - slack
  let isFirst = true

  async function resend(from: number): Promise<void> {
    for await (const { wins, losses } of marks.pages(from)) {
      const events: StreamEvent[] = [
        ...wins.flatMap((row) => winEventOf(row, noticesOf(row.supplier)) ?? []),
        ...losses.map(({ decision, at }) => bareLossEvent(decision, Number(at))),
      ]
      await stream.sendNow(events)
      counts.resent += events.length
    }
  }

  async function runOnce(): Promise<void> {
    if (!stream.isBehind) mark = Math.max(mark, (stream.waitingSince ?? now()) - slack)
    const taken = await marks.write(mark, now(), alone && isFirst ? 0 : deadAfter)
    isFirst = false
    if (taken < mark) {
      mark = taken
      stream.isBehind = true
    }
    // The queue first: what is sent again may be in it.
    if (!stream.isBehind || stream.waitingSince !== null) return
    const began = now()
    stream.isBehind = false
    try {
      await resend(mark)
      mark = began - slack
      log.info({ events: counts.resent }, 'wins and losses were sent to the event log again')
    } catch (error) {
      stream.isBehind = true
      throw error
    }
  }

  const run = oneAtATime(async () => {
    try {
      await runOnce()
    } catch (error) {
      log.info(
        { err: (error as Error).message },
        'the progress of the event log was not stored and will be retried',
      )
    }
  })
  const timer = setInterval(() => void run(), every).unref()
  void run()

  return {
    counts,
    /** After the stream was closed. */
    async close() {
      clearInterval(timer)
      const complete = !stream.isBehind && stream.waitingSince === null
      await (complete ? marks.remove() : marks.abandon()).catch((error: Error) =>
        log.info({ err: error.message }, 'the progress of the event log was not stored'),
      )
    },
  }
}
