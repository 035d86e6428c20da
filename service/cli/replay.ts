/**
 * `bidweir replay LOG… [--config FILE] [--format json]`: what OPD would have done on a recorded decision log.
 */

import { milliseconds } from '../../opd/base/units.ts'
import { type OpdConfig, opdSchema } from '../../opd/config.ts'
import type { Estimate } from '../../opd/replay/estimates.ts'
import { Replay, type ReplayCounts } from '../../opd/replay/replay.ts'
import type { ReplayPolicy } from '../../opd/replay/replica.ts'
import type { IntegrationReport, TotalReport } from '../../opd/replay/report.ts'
import { logFiles, type ReadLine, readLogs } from '../../opd/state/log-reader.ts'
import { loadConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { type CommandStreams, printFaults } from './command.ts'
import { badConfig, badData, badUsage, CommandError, noInput } from './exit-codes.ts'

interface ReplayReport {
  counts: ReplayCounts
  integrations: readonly IntegrationReport[]
  total: TotalReport
}

const percent = (value: number) => `${(value * 100).toFixed(2)} %`
const plain = (value: number) => value.toFixed(4)
const count = (value: number) => value.toLocaleString('en-US')

const figures = [
  ['win_rate', 'win rate', percent],
  ['kept_wins', 'kept wins', percent],
  ['kept_spend', 'kept spend', percent],
  ['margin_share', 'margin of spend', percent],
  ['margin_per_bid', 'margin a bid (CPM)', plain],
  ['mean_factor', 'mean factor', plain],
] as const

const columns = [20, 12, 14, 30, 30]
const line = (cells: readonly string[]) =>
  cells
    .map((cell, index) => (index === 0 ? cell.padEnd(columns[0]!) : cell.padStart(columns[index]!)))
    .join('')
    .trimEnd()

const shown = (value: number | null, spell: (value: number) => string) =>
  value === null ? '-' : spell(value)
const spanned = (estimate: Estimate | null | undefined, spell: (value: number) => string) =>
  estimate == null
    ? '-'
    : `${spell(estimate.value)} [${spell(estimate.low)}, ${spell(estimate.high)}]`

function statusLines({ status, why, slice }: TotalReport): string[] {
  const reasons = why.length === 0 ? '' : `: ${why.join('; ')}`
  const evidence = `${count(slice.explored)} explored, ${count(slice.effective)} effective; holdout ${count(slice.holdout)}`
  return [`  ${status}${reasons}`, `  (${evidence})`]
}

function block(title: string, report: TotalReport): string[] {
  const rows = figures.map(([key, name, spell]) => {
    const robust = key === 'mean_factor' ? null : report.doubly_robust?.[key]
    const ips = key === 'mean_factor' ? null : report.ips?.[key]
    return line([
      `  ${name}`,
      shown(report.logged[key], spell),
      shown(report.model[key], spell),
      spanned(robust, spell),
      spanned(ips, spell),
    ])
  })
  const head = line(['', 'logged', 'model', 'doubly robust (95 %)', 'IPS (95 %)'])
  return [title, head, ...rows, ...statusLines(report), '']
}

function leftOf(left: Record<string, number>): string {
  const rows = Object.entries(left).map(([arm, bids]) => `${count(bids)} ${arm}`)
  return rows.length === 0 ? '' : `, not asked: ${rows.join(', ')}`
}

function headOf(counts: ReplayCounts): string {
  const { decisions, wins, from, to } = counts
  const shown = (time: number | null) => (time === null ? '-' : new Date(time).toISOString())
  const rest = [
    [counts.bad, 'bad lines'],
    [counts.repeated, 'repeated lines'],
    [counts.unmatchedWins, 'wins without their decision'],
    [counts.withdrawn, 'wins excluded from training'],
    [counts.beyond, 'lines of too many integrations'],
    [counts.warmUp, 'decisions to warm up'],
    [counts.open, 'too young at the end'],
  ] as const
  const odd = rest.filter(([n]) => n > 0).map(([n, name]) => `, ${count(n)} ${name}`)
  return `${count(decisions)} decisions, ${count(wins)} wins${odd.join('')}\n${shown(from)} to ${shown(to)}`
}

/** The report as text: one block for each integration, one line for each figure. */
function table({ counts, integrations, total }: ReplayReport): string {
  const blocks = integrations.flatMap((integration) =>
    block(
      `${integration.ssp} (${integration.mode}, ${integration.policy.from === 'file' ? 'as configured' : 'defaults'}): ${count(integration.bids)} bids, ${count(integration.wins)} wins${leftOf(integration.left)}`,
      integration,
    ),
  )
  const sum = integrations.length > 1 ? block(`total: ${count(total.bids)} bids`, total) : []
  return [headOf(counts), '', ...blocks, ...sum].join('\n')
}

/** All bad lines are counted; the first ones are printed. */
const maxNamedLines = 20
const halfAnHour = 1_800_000

type Streams = Pick<CommandStreams, 'stdout' | 'stderr'>

/** Options as the command line returns them. */
export interface ReplayOptions {
  config?: string
  format: string
  warmUp: string
  pending?: string
}

function policyOf(opd: OpdConfig, from: ReplayPolicy['from']): ReplayPolicy {
  const { mode, minWinRate, minSpend, explore, minFactor, targetMargin } = opd
  const policy = { minWinRate, minSpend, explore, minFactor }
  return { mode, from, policy: mode === 'margin' ? { ...policy, targetMargin } : policy }
}

/** Ignores `enabled`: replay shows the effect of OPD before it is switched on. */
function policies(config: Config | null) {
  const byFile = new Map<string, ReplayPolicy>()
  for (const { id, opd } of config?.suppliers ?? [])
    if (opd !== undefined) byFile.set(id, policyOf(opd, 'file'))
  const defaults = {
    revenue: policyOf(opdSchema.parse({ mode: 'revenue' }), 'default'),
    margin: policyOf(opdSchema.parse({ mode: 'margin' }), 'default'),
  }
  return (ssp: string, mode: 'revenue' | 'margin') => byFile.get(ssp) ?? defaults[mode]
}

function configOf(file: string | undefined, streams: Streams): Config | null {
  if (file === undefined) return null
  const loaded = loadConfig(file)
  if (loaded.config !== null && loaded.faults.length === 0) return loaded.config
  printFaults(loaded, file, streams)
  throw new CommandError(badConfig, `${file}: the configuration is wrong`)
}

async function filesOf(paths: readonly string[]): Promise<string[]> {
  try {
    return await logFiles(paths)
  } catch (error) {
    throw new CommandError(noInput, (error as Error).message)
  }
}

export async function replayCommand(
  logs: readonly string[],
  options: ReplayOptions,
  streams: Streams,
): Promise<void> {
  const { pending } = options
  const warmUp = milliseconds(options.warmUp)
  if (Number.isNaN(warmUp))
    throw new CommandError(badUsage, '--warm-up is a duration such as 30m or 6h')
  if (pending !== undefined && !/^[1-9]\d{0,8}$/.test(pending))
    throw new CommandError(badUsage, '--pending is a number of bids')
  const config = configOf(options.config, streams)
  const files = await filesOf(logs)
  const replay = new Replay({
    attributionWindow: config?.opd.attributionWindow ?? halfAnHour,
    policyOf: policies(config),
    warmUp,
    ...(pending === undefined ? {} : { maxPending: Number(pending) }),
  })
  const bad: { file: string; line: number; why: string }[] = []
  for await (const { file, number, line } of readLogs(files) as AsyncIterable<ReadLine>) {
    replay.feed(line)
    if (line.kind !== 'bad') continue
    if (bad.length < maxNamedLines) bad.push({ file, line: number, why: line.why })
  }
  const { counts, integrations, total } = replay.report()
  for (const { file, line, why } of bad) streams.stderr.write(`${file}:${line}: ${why}\n`)
  if (counts.bad > bad.length)
    streams.stderr.write(`and ${counts.bad - bad.length} more bad lines\n`)
  if (counts.decisions === 0)
    throw new CommandError(
      badData,
      counts.bad === 0 ? 'the log is empty' : 'no decision can be read in this log',
    )
  const text =
    options.format === 'table'
      ? table({ counts, integrations, total })
      : `${JSON.stringify({ format: 1, files, counts: jsonCounts(counts), bad, integrations, total }, null, 2)}\n`
  streams.stdout.write(text)
}

/** Keys of the JSON are snake_case, times ISO 8601. */
function jsonCounts(counts: ReplayCounts) {
  const { unmatchedWins, warmUp, from, to, ...rest } = counts
  const shown = (time: number | null) => (time === null ? null : new Date(time).toISOString())
  return {
    ...rest,
    unmatched_wins: unmatchedWins,
    warm_up: warmUp,
    from: shown(from),
    to: shown(to),
  }
}
