/** Metrics of the event stream. */
import type { Registry } from 'prom-client'
import { byName, counter, gauge, one, registerRows } from '../../opd/shared/metrics.ts'
import type { Events } from '../events/index.ts'

const types = ['decision', 'win', 'loss'] as const

export function eventMetrics(registry: Registry, { stream, resent }: Events): void {
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
      () => one(resent.resent),
    ),
    counter(
      'bidweir_events_failures_total',
      'Requests that the event log did not confirm; they are tried again',
      () => one(counts.failed),
    ),
  ])
}
