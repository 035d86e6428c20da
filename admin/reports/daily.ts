/**
 * The report of the last day, once a day to a webhook. One node sends it: the one that has the row of the day. If it fails, it is
 * tried again until the day is over, by whichever node is first.
 */
import { sql } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { callWebhook, type Webhook } from '../http/webhook.ts'
import { hour } from '../store/hour.ts'
import type { Store } from '../store/index.ts'
import type { ReportRules } from './arms.ts'
import { reports } from './columns.ts'
import { createReportWorker } from './report-worker.ts'
import type { Group } from './scope.ts'
import { dayOf, instantOf, offsetAt, textOf } from './zone.ts'

export interface DailySettings extends Webhook {
  /** `HH:MM` in `tz`. */
  at: string
  tz: string
}

interface DailyReportDeps {
  store: Store
  /** null: no report is sent. */
  settings: () => DailySettings | null
  rules: () => ReportRules
  flush: () => Promise<unknown>
  now: () => number
  log: Log
}

/** Milliseconds between two looks, and until a report that was not sent is tried again. */
const [every, again] = [30_000, 300_000]

/** The last whole day at a time, and when its report is due. */
export function dayBefore(now: number, { at: time, tz }: Pick<DailySettings, 'at' | 'tz'>) {
  const to = dayOf(now, tz)
  // noon of the day before, also where days have 23 or 25 hours
  const from = dayOf(to - 12 * hour, tz)
  const [hours = 0, minutes = 0] = time.split(':').map(Number)
  const wall = to + offsetAt(to, tz) + hours * hour + minutes * 60_000
  return { from, to, due: instantOf(wall, tz), name: textOf(from, tz).slice(0, 10) }
}

/** Sends the report of each day. One node does so. */
export class DailyReport {
  private readonly deps: DailyReportDeps
  private readonly worker: ReturnType<typeof createReportWorker>
  private readonly timer: NodeJS.Timeout

  constructor(deps: DailyReportDeps) {
    this.deps = deps
    this.worker = createReportWorker(deps.store)
    this.timer = setInterval(() => void this.check(), every).unref()
    void this.check()
  }

  /** Sends the report of the last day, if it is due and was not sent. */
  readonly check = oneAtATime(async () => {
    const { settings, now, log } = this.deps
    const wanted = settings()
    if (wanted === null) return
    const day = dayBefore(now(), wanted)
    if (now() < day.due) return
    try {
      if (!(await this.claim(day.name))) return
      await this.send(wanted, day)
      await sql`update daily_reports set sent = 1 where day = ${day.name}`.execute(
        this.deps.store.db,
      )
      log.info({ day: day.name }, 'the report of the day was sent')
    } catch (error) {
      const err = (error as Error).message
      log.warn({ day: day.name, err }, 'the report of the day was not sent, it is tried again')
    }
  })

  /** Whether this node sends it: the first one, or the first after a failure. */
  private async claim(day: string): Promise<boolean> {
    const { store, now } = this.deps
    const time = now()
    const { rows } = await sql`insert into daily_reports (day, sent, at) values (${day}, 0, ${time})
      on conflict (day) do update set at = ${time}
      where daily_reports.sent = 0 and daily_reports.at <= ${time - again} returning day`.execute(
      store.db,
    )
    return rows.length > 0
  }

  private async rows(from: number, to: number, tz: string, by: Group): Promise<object[]> {
    const scope = { suppliers: [], all: true, from, to, by, tz }
    const { columns } = reports['summary']!
    const format = 'json'
    const bytes = await this.worker.run({ scope, columns, format, rules: this.deps.rules() })
    return JSON.parse(new TextDecoder().decode(bytes)) as object[]
  }

  private async send(
    webhook: DailySettings,
    { from, to, name }: ReturnType<typeof dayBefore>,
  ): Promise<void> {
    const { flush, now } = this.deps
    const { tz } = webhook
    await flush()
    const [total = null] = await this.rows(from, to, tz, 'day')
    const suppliers = await this.rows(from, to, tz, 'ssp')
    const event = { id: `daily_report ${name}`, event: 'daily_report', day: name, tz }
    await callWebhook(webhook, { ...event, total, suppliers }, now())
  }

  async close(): Promise<void> {
    clearInterval(this.timer)
    await this.worker.close()
  }
}
