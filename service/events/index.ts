/** Opens the event stream, and connects it with bids, notices, the store and the metrics. */
import type { Registry } from 'prom-client'
import type { RecordedLoss } from '../../admin/impressions/losses.ts'
import { eventMarks } from '../../admin/store/event-marks.ts'
import type { Store } from '../../admin/store/index.ts'
import type { LedgerRow } from '../../admin/store/tables.ts'
import type { Log } from '../../opd/base/log.ts'
import { byName, counter, gauge, one, registerRows } from '../../opd/base/metrics.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import { createCatchUp } from './catch-up.ts'
import type { KafkaConfig } from './config.ts'
import { lossEventOf, type Notices, winEventOf } from './event.ts'
import { openKafka } from './kafka.ts'
import { EventStream } from './stream.ts'

interface EventsOptions {
  config: KafkaConfig
  registry: Registry
  store: Store
  /** Identifies this process. */
  node: string
  noticesOf: (supplier: string | null) => Notices
  now: () => number
  log: Log
}

export function openEvents(options: EventsOptions) {
  const { config, registry, store, node, noticesOf, now, log } = options
  const stream = new EventStream(openKafka(config), { log, now })
  const marks = eventMarks(store, node)
  const alone = !store.postgres
  const catchUp = createCatchUp({ stream, marks, noticesOf, alone, now, log })
  registerMetrics(registry, stream, catchUp.counts)
  const queue = (row: LedgerRow) => {
    const event = winEventOf(row, noticesOf(row.supplier))
    if (event !== null) stream.outcome(event)
  }
  return {
    decided: (record: DecisionRecord) => stream.decided(record),
    /** Observes each decision, beside `observer`. */
    observing: (observer: DecisionObserver): DecisionObserver => ({
      decided(record, inBa, outBa) {
        observer.decided(record, inBa, outBa)
        stream.decided(record)
      },
    }),
    won: queue,
    lost: (loss: RecordedLoss) => stream.outcome(lossEventOf(loss)),
    voided(decision: string): void {
      const queued = marks.wins(decision).then((rows) => rows.forEach(queue))
      // The audit trail has it: it is sent with what is sent again.
      queued.catch((error: Error) => {
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

const types = ['decision', 'win', 'loss'] as const

function registerMetrics(
  registry: Registry,
  stream: EventStream,
  caughtUp: { readonly resent: number },
): void {
  const { counts, sent } = stream
  registerRows(registry, [
    counter('bidweir_events_sent_total', 'Events that the event log has stored', () =>
      byName('type', types, (type) => sent[type]),
    ),
    gauge('bidweir_events_waiting', 'Events in the queues', () => one(stream.waiting)),
    counter(
      'bidweir_events_dropped_total',
      'Decisions that did not fit into the queue; they are not sent',
      () => one(counts.dropped),
    ),
    counter(
      'bidweir_events_deferred_total',
      'Wins and losses that did not fit into the queue; they are read from the store later',
      () => one(counts.deferred),
    ),
    counter(
      'bidweir_events_resent_total',
      'Wins and losses that were read from the store and sent again, after a crash or a full queue',
      () => one(caughtUp.resent),
    ),
    counter(
      'bidweir_events_failures_total',
      'Requests that the event log did not confirm; they are tried again',
      () => one(counts.failed),
    ),
  ])
}
