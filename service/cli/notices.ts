/**
 * `bidweir notices import FILE…`: wins and losses of platforms that call no URL. Each notice takes the way of `/opd/imp` and
 * `/opd/loss` into the ledger; what follows it is left in the journal, which a running node, or the next start, works off.
 */
import { dirname } from 'node:path'
import { ImpressionCounters } from '../../admin/impressions/counters.ts'
import { processLoss } from '../../admin/impressions/losses.ts'
import {
  type ColumnNames,
  type FileNotice,
  noticeColumns,
  readNotices,
} from '../../admin/impressions/notice-file.ts'
import { type NoticeDeps, Notices, UnknownEncodingError } from '../../admin/impressions/process.ts'
import type { Store } from '../../admin/store/index.ts'
import type { Integration } from '../../opd/config.ts'
import { createAttribution } from '../../opd/engine/notices.ts'
import { createContextCodec, Nonces } from '../../opd/pricing/context.ts'
import { rateOf } from '../../opd/shared/rates.ts'
import { logFiles, readLogs } from '../../opd/state/log-reader.ts'
import type { Config } from '../config/schema.ts'
import { referenceRules } from '../config/supplier-block.ts'
import { keysFile, loadOrCreateKeys } from '../context-keys.ts'
import { createLog } from '../log/log.ts'
import { retentionMs } from '../runtime-config.ts'
import { StoredSuppliers } from '../stored-suppliers.ts'
import { type CommandStreams, configOf, withStore } from './command.ts'
import { badUsage, CommandError, noInput } from './exit-codes.ts'

export interface ImportOptions {
  config?: string
  /** Decision logs; default: that of the configuration. */
  log?: string[]
  /** `bid_id=auction_bid_id` */
  column?: string[]
  complete: boolean
}

const lostWithoutNotice = 'lost without a notice'
/** In the order in which they are printed. */
const results = [
  ...['attributed', 'unattributed', 'duplicate', 'ignored'],
  ...['loss recorded', 'loss unattributed', 'loss duplicate', lostWithoutNotice, 'refused'],
]

/** Notices whose decisions are looked for in one reading of the logs. */
const noticesAtOnce = 100_000
/** Notices that wait for a commit. */
const concurrent = 1000
/** Milliseconds by which the clock of the platform may differ. */
const clockSlack = 5 * 60_000

/** A decision of the logs. */
interface LoggedDecision {
  ssp: string
  time: number
  bid: string
  svcOpd: string
  sealed: boolean
}

const caller = {
  subject: 'bidweir notices import',
  account: '*',
  roles: new Set(['operator' as const]),
}

function columnsOf(given: readonly string[] = []): ColumnNames {
  return Object.fromEntries(
    given.map((field) => {
      const [name = '', column = ''] = field.split(/=(.*)/s)
      if (!noticeColumns.includes(name) || column === '')
        throw new CommandError(
          badUsage,
          `--column ${field}: NAME=COLUMN, NAME one of ${noticeColumns.join(', ')}`,
        )
      return [name, column]
    }),
  )
}

class Import {
  readonly counts = new Map<string, number>()
  faults = 0
  private readonly config: Config
  private readonly store: Store
  private readonly logs: readonly string[]
  private readonly streams: CommandStreams
  private readonly deps: NoticeDeps
  private readonly notices: Notices
  /** The time of the notice at hand: contexts, caps and hours are those of this time. */
  private readonly now = Date.now()

  constructor(
    config: Config,
    store: Store,
    suppliers: ReadonlyMap<string, Integration>,
    logs: readonly string[],
    streams: CommandStreams,
  ) {
    this.config = config
    this.store = store
    this.logs = logs
    this.streams = streams
    const keys = (config.opd.keys ?? loadOrCreateKeys(config.stateDir)).map(({ id, secret }) => ({
      id,
      secret: Buffer.from(secret, 'base64url'),
    }))
    const { contextTtl, attributionWindow } = config.opd
    const { rates = null, base } = config.currency
    const codec = createContextCodec(keys, contextTtl, new Nonces())
    const nothing = () => {}
    this.deps = {
      engine: {
        ...createAttribution({
          bidLog: { put: () => null, find: () => [] },
          // What no log has is left to the running nodes, which look it up in theirs.
          shared: { put: nothing, find: async () => null, written: async () => {} },
          now: store.clock,
          fault: nothing,
          codec: () => codec,
          settings: () => ({ keys, attributionWindow, contextTtl, rates, base }),
        }),
        rate: (currency) => rateOf(currency, rates, base),
        // The node that works off the journal does this.
        recordWin: nothing,
        learnWin: nothing,
        learnLoss: nothing,
        withdrawExposure: nothing,
      },
      counters: new ImpressionCounters(),
      integration: (id) => suppliers.get(id) ?? null,
      ledger: store.ledger,
      auth: 'none',
      contextTtl: () => contextTtl,
      account: () => undefined,
      now: store.clock,
      alert: nothing,
      onDuplicate: nothing,
    }
    this.notices = new Notices(this.deps)
  }

  async files(files: readonly string[], columns: ColumnNames): Promise<void> {
    let chunk: FileNotice[] = []
    for (const file of files)
      for await (const read of readNotices(file, columns)) {
        if ('fault' in read) this.fault(read.file, read.line, read.fault)
        else if (this.isInTime(read)) chunk.push(read)
        if (chunk.length < noticesAtOnce) continue
        await this.chunk(chunk)
        chunk = []
      }
    await this.chunk(chunk)
  }

  /** Every decision of a sealed node that has no win is lost. */
  async rest(): Promise<void> {
    let waiting: LoggedDecision[] = []
    const flush = async () => {
      await Promise.all(waiting.map((decision) => this.lose(decision)))
      await this.store.outcomes.handOver()
      waiting = []
    }
    for await (const decision of this.decisions()) {
      if (!decision.sealed) continue
      waiting.push(decision)
      if (waiting.length >= concurrent) await flush()
    }
    await flush()
  }

  private async lose({ ssp, bid, svcOpd, time }: LoggedDecision): Promise<void> {
    const notice = {
      bidId: bid,
      price: '0',
      svcOpd,
      ssp,
      event: 'win',
      priceDsp: undefined,
    } as const
    const settledAt = Math.min(time + this.config.opd.attributionWindow, this.now)
    const loss = { ...notice, past: true }
    const status = await processLoss(
      { ...this.deps, losses: this.store.losses },
      loss,
      caller,
      settledAt,
    )
    if (status === 'recorded') this.count(lostWithoutNotice)
  }

  private isInTime({ file, line, time }: FileNotice): boolean {
    if (time === null) return true
    const fault =
      time > this.now + clockSlack
        ? 'time is in the future'
        : time < this.now - retentionMs(this.config)
          ? 'time is before what store.retentionDays keeps'
          : null
    if (fault !== null) this.fault(file, line, fault)
    return fault === null
  }

  private async chunk(notices: readonly FileNotice[]): Promise<void> {
    const found = await this.decisionsOf(notices)
    for (let from = 0; from < notices.length; from += concurrent) {
      const some = notices.slice(from, from + concurrent)
      await Promise.all(
        some.map((notice) => this.one(notice, found.get(notice.notice.bidId) ?? [])),
      )
      await this.store.outcomes.handOver()
    }
  }

  /** The decisions of the logs with the bid ids of notices. */
  private async decisionsOf(notices: readonly FileNotice[]) {
    const found = new Map<string, LoggedDecision[]>(notices.map(({ notice }) => [notice.bidId, []]))
    if (notices.length === 0) return found
    for await (const decision of this.decisions()) found.get(decision.bid)?.push(decision)
    return found
  }

  private async *decisions(): AsyncGenerator<LoggedDecision> {
    for await (const { line } of readLogs(this.logs)) {
      if (line.kind !== 'decision' || line.bid === undefined || line.svcOpd === undefined) continue
      const { ssp, time, bid, svcOpd, sealed = false } = line
      yield { ssp, time, bid, svcOpd, sealed }
    }
  }

  private async one(read: FileNotice, logged: readonly LoggedDecision[]): Promise<void> {
    const { file, line, isLoss, time } = read
    const decision = decisionFor(read, logged, Math.min(time ?? this.now, this.now))
    // Without a time a notice counts on the day of its bid: the sums and caps of today are those of today's bids.
    const sentAt = Math.min(time ?? decision?.time ?? this.now, this.now)
    const notice = {
      ...read.notice,
      ...(decision !== null && {
        svcOpd: read.notice.svcOpd ?? decision.svcOpd,
        past: decision.sealed,
      }),
    }
    if (isLoss) {
      const losses = { ...this.deps, losses: this.store.losses }
      return this.count(`loss ${await processLoss(losses, notice, caller, sentAt)}`)
    }
    const result = await this.notices.process(notice, caller, sentAt).catch((error: Error) => {
      if (error instanceof UnknownEncodingError) return null
      throw error
    })
    if (result === null)
      return this.fault(
        file,
        line,
        'price is not a plain decimal, and no log names the supplier, whose encoding it may have: give ssp',
      )
    if (result.status === 'rejected') {
      const why = result.faults?.map(({ detail }) => detail).join(', ')
      return this.fault(file, line, why ?? result.code)
    }
    this.count(result.status)
  }

  private count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }

  private fault(file: string, line: number, what: string): void {
    this.faults++
    this.streams.stderr.write(`${file}:${line}: ${what}\n`)
  }
}

/** The latest decision before a notice; null if there is none, or if several suppliers have one. */
function decisionFor(
  { notice }: FileNotice,
  logged: readonly LoggedDecision[],
  timestamp: number,
): LoggedDecision | null {
  const before = logged.filter(
    ({ ssp, time }) =>
      time <= timestamp + clockSlack && (notice.ssp === undefined || ssp === notice.ssp),
  )
  if (new Set(before.map(({ ssp }) => ssp)).size !== 1) return null
  return before.reduce((one, other) => (other.time > one.time ? other : one))
}

export async function importNotices(
  files: readonly string[],
  options: ImportOptions,
  streams: CommandStreams,
): Promise<void> {
  const columns = columnsOf(options.column)
  const config = await configOf(options.config, streams)
  const { decisionLog } = config.opd
  const paths = options.log ?? (decisionLog === null ? [] : [decisionLog.path])
  const missing = (error: Error) => {
    throw new CommandError(noInput, error.message)
  }
  const logs = await logFiles(paths).catch(missing)
  const found = await logFiles(files).catch(missing)
  let faults = 0
  await withStore(config, streams, async (store) => {
    const base = options.config === undefined ? '.' : dirname(options.config)
    // Their blocks were checked when they were stored, and again by the nodes.
    const references = referenceRules(
      base,
      () => [keysFile(config.stateDir)],
      () => config.proxy.tls?.clientCa !== undefined,
    )
    const stored = new StoredSuppliers(store, references, createLog('error'))
    await stored.read()
    const suppliers = new Map(
      stored
        .mergedWith(config.suppliers)
        .map(({ id, notices, clearing, opd }) => [id, { id, notices, clearing, opd: opd ?? null }]),
    )
    const run = new Import(config, store, suppliers, logs, streams)
    await run.files(found, columns)
    if (options.complete) await run.rest()
    faults = run.faults
    const counts = new Map([...run.counts, ['refused', faults]])
    const shown = results.flatMap((what) => {
      const count = counts.get(what) ?? 0
      return count > 0 ? `${count} ${what}` : []
    })
    return `${shown.join(', ') || 'no notices'}\n`
  })
  if (faults > 0) throw new CommandError(1, '')
}
