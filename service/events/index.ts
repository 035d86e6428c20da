/** Opens the event stream, and connects it with bids, notices and the store. */
import type { RecordedLoss } from '../../admin/impressions/losses.ts'
import { eventMarks } from '../../admin/store/event-marks.ts'
import type { Store } from '../../admin/store/index.ts'
import type { LedgerRow } from '../../admin/store/tables.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import type { Log } from '../../opd/shared/log.ts'
import { createCatchUp } from './catch-up.ts'
import type { KafkaConfig } from './config.ts'
import { lossEventOf, type Notices, winEventOf } from './event.ts'
import { openKafka } from './kafka.ts'
import { EventStream } from './stream.ts'

interface EventsOptions {
  config: KafkaConfig
  store: Store
  /** Identifies this process. */
  node: string
  noticesOf: (supplier: string | null) => Notices
  now: () => number
  log: Log
}

export interface Events {
  readonly stream: EventStream
  readonly resent: { readonly resent: number }
  decided(record: DecisionRecord): void
  /** Observes each decision, beside `observer`. */
  observing(observer: DecisionObserver): DecisionObserver
  won(row: LedgerRow): void
  lost(loss: RecordedLoss): void
  voided(decision: string): void
  close(): Promise<void>
}

export function openEvents({ config, store, node, noticesOf, now, log }: EventsOptions): Events {
  const stream = new EventStream(openKafka(config), { log, now })
  const marks = eventMarks(store, node)
  const alone = !store.postgres
  const catchUp = createCatchUp({ stream, marks, noticesOf, alone, now, log })
  return {
    stream,
    resent: catchUp.counts,
    decided: (record) => stream.decided(record),
    observing: (observer) => ({
      decided(record, inBa, outBa) {
        observer.decided(record, inBa, outBa)
        stream.decided(record)
      },
    }),
    won(row) {
      const event = winEventOf(row, noticesOf(row.supplier))
      if (event !== null) stream.outcome(event)
    },
    lost: (loss) => stream.outcome(lossEventOf(loss)),
    voided(decision) {
      const queue = async () => {
        for (const row of await marks.wins(decision)) {
          const event = winEventOf(row, noticesOf(row.supplier))
          if (event !== null) stream.outcome(event)
        }
      }
      // The audit trail has it: it is sent with what is sent again.
      queue().catch((error: Error) => {
        log.info({ err: error.message }, 'the event of a void was not queued, it is sent later')
        stream.isBehind = true
      })
    },
    async close() {
      await stream.close()
      await catchUp.close()
    },
  }
}
