/**
 * Alerts: what the states of suppliers and the problems of nodes say, with a history, and sent to a webhook. Every node has this
 * timer; the first one makes the round for all.
 */
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { callWebhook, type Webhook } from '../http/webhook.ts'
import {
  type Alert,
  type AlertChanges,
  alertRound,
  type Condition,
  markSent,
  setReceiver,
  takeRound,
  unsentAlerts,
  writeAlerts,
} from '../store/alerts.ts'
import type { Store } from '../store/index.ts'
import { type LiveDeps, nodeProblemsOf, statesOf } from './live.ts'

export interface AlertsDeps {
  store: Pick<Store, 'db' | 'bump'>
  /** What has changed, compared on another thread. */
  changes: () => Promise<AlertChanges>
  /** null: alerts are sent nowhere. */
  receiver: () => Webhook | null
  now: () => number
  log: Log
}

/** Milliseconds between two looks, until a call that failed is made again for the first time, and at most. */
const [every, again, longest] = [30_000, 30_000, 3_600_000]
/** Alerts of one call. */
const mostSent = 100

/** What somebody wants is no alert, nor what follows an alert. */
const intended: ReadonlySet<string> = new Set(['held', 'ending', 'guard_unchecked'])

const iso = (time: number | null) => (time === null ? null : new Date(time).toISOString())

/** An alert as the API shows it, and as the receiver gets it. */
export const shownAlert = ({ id, rule, supplier, node, level, text, fix, ...row }: Alert) => ({
  ...{ id, rule, level, text, fix },
  supplier: supplier === '' ? null : supplier,
  node: node === '' ? null : node,
  state: row.ended === null ? ('open' as const) : ('ended' as const),
  began: iso(row.began)!,
  ended: iso(row.ended),
})

/**
 * What is wrong with suppliers and nodes.
 *
 * @param live figures of all nodes
 */
export async function conditionsOf(live: LiveDeps): Promise<Condition[]> {
  const nodes = await live.nodes()
  await live.kept.read()
  const found: Condition[] = []
  for (const { shown, figures } of statesOf(live, nodes, true, () => true)) {
    const isRecorded = (figures?.funnel.notices['attributed'] ?? 0) > 0
    for (const { rule, level, text, fix } of shown.health.reasons)
      if (level !== 'none' && level !== 'ok' && !intended.has(rule))
        found.push({ ...{ rule, level, text, fix, isRecorded }, supplier: shown.ssp, node: '' })
  }
  for (const node of nodes)
    for (const { rule, level, text } of nodeProblemsOf(node, nodes))
      if (!intended.has(rule))
        found.push({
          ...{ rule, level, text, fix: null, isRecorded: false },
          ...{ supplier: '', node: node.node },
        })
  return found
}

/** Looks for what has changed at intervals, keeps its history, and notifies the receiver. One node does so at a time. */
export class Alerts {
  private readonly deps: AlertsDeps
  private readonly timer: NodeJS.Timeout

  constructor(deps: AlertsDeps) {
    this.deps = deps
    this.timer = setInterval(() => void this.check(), every).unref()
  }

  /** Compares what is wrong with what is known, and calls the receiver, if no other node has just done so. */
  readonly check = oneAtATime(async () => {
    const { store, changes, now, log, receiver } = this.deps
    try {
      if (!(await takeRound(store.db, now()))) return
      const webhook = receiver()
      await writeAlerts(store, await changes(), now(), webhook === null)
      if (webhook !== null) await this.send(webhook)
    } catch (error) {
      log.warn({ err: (error as Error).message }, 'alerts could not be compared')
    }
  })

  private async send(webhook: Webhook): Promise<void> {
    const { store, now, log } = this.deps
    const { db } = store
    const { next, failures } = await alertRound(db)
    if (now() < next) return
    const alerts = await unsentAlerts(db, mostSent)
    if (alerts.length === 0) return
    const id = `alerts ${alerts.map((alert) => `${alert.id}${alert.ended === null ? '' : 'e'}`).join()}`
    try {
      await callWebhook(webhook, { id, event: 'alerts', alerts: alerts.map(shownAlert) }, now())
    } catch (error) {
      const fault = (error as Error).message
      const wait = Math.min(longest, again * 2 ** failures)
      await setReceiver(db, { failures: failures + 1, next: now() + wait, fault })
      log.warn({ err: fault, alerts: alerts.length }, 'alerts were not sent, they are sent again')
      return
    }
    await markSent(db, alerts)
    if (failures > 0) await setReceiver(db, { failures: 0, next: 0, fault: null })
  }

  get hasReceiver(): boolean {
    return this.deps.receiver() !== null
  }

  /** Sends an event that says only that it is a test. Null, or why it failed. */
  async sendTest(): Promise<string | null> {
    const { receiver, now } = this.deps
    const webhook = receiver()
    if (webhook === null) return 'admin.alerts is not configured'
    const time = now()
    return callWebhook(webhook, { id: `alert_test ${time}`, event: 'alert_test' }, time).then(
      () => null,
      (error: Error) => error.message,
    )
  }

  close(): void {
    clearInterval(this.timer)
  }
}
