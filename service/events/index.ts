/** Opens the event stream, and connects it with bids, the journal of outcomes and the metrics. */
import type { Registry } from 'prom-client'
import type { Outcome } from '../../admin/store/outcomes.ts'
import type { Log } from '../../opd/base/log.ts'
import { byName, counter, gauge, one, registerRows } from '../../opd/base/metrics.ts'
import type { DecisionObserver } from '../../opd/ports.ts'
import type { DecisionRecord } from '../../opd/types.ts'
import type { KafkaConfig } from './config.ts'
import { eventOf, type Notices } from './event.ts'
import { openKafka } from './kafka.ts'
import { EventStream } from './stream.ts'

interface EventsOptions {
  config: KafkaConfig
  registry: Registry
  noticesOf: (supplier: string | null) => Notices
  log: Log
}

export function openEvents({ config, registry, noticesOf, log }: EventsOptions) {
  const stream = new EventStream(openKafka(config), log)
  registerMetrics(registry, stream)
  return {
    decided: (record: DecisionRecord) => stream.decided(record),
    /** Observes each decision, beside `observer`. */
    observing: (observer: DecisionObserver): DecisionObserver => ({
      observerOf(supplier) {
        const other = observer.observerOf(supplier)
        return {
          decided(record, inBa, outBa) {
            other.decided(record, inBa, outBa)
            stream.decided(record)
          },
        }
      },
    }),
    /** Resolves when the log has the events of the outcomes. */
    stream: (outcomes: readonly Outcome[]) =>
      stream.sendNow(outcomes.flatMap((outcome) => eventOf(outcome, noticesOf) ?? [])),
    close: () => stream.close(),
  }
}

const types = ['decision', 'win', 'loss'] as const

function registerMetrics(registry: Registry, stream: EventStream): void {
  const { counts, sent } = stream
  registerRows(registry, [
    counter('bidweir_events_sent_total', 'Events that the event log has stored', () =>
      byName('type', types, (type) => sent[type]),
    ),
    gauge('bidweir_events_waiting', 'Decisions in the queue', () => one(stream.waiting)),
    counter(
      'bidweir_events_dropped_total',
      'Decisions that did not fit into the queue; they are not sent',
      () => one(counts.dropped),
    ),
    counter(
      'bidweir_events_failures_total',
      'Requests that the event log did not confirm; they are tried again',
      () => one(counts.failed),
    ),
  ])
}
