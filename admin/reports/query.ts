/** The SQL of the reports; `rows.ts` interprets the results. */
import { sql } from 'kysely'
import { hourOf } from '../store/hour.ts'
import { margins, money, squares } from '../store/sums.ts'
import { hourOthers, hourWins } from './hours.ts'
import { inScope, keyOf, type Scope, type Source } from './scope.ts'
import type { TimeRanges } from './time-ranges.ts'

/** Wins and their money, by every column that affects how they count. Test bids are excluded. */
function ledgerWins(source: Source, scope: Scope) {
  const key = keyOf(scope.by, 'at')
  return source.db
    .selectFrom('ledger')
    .select([
      key.as('key'),
      'supplier',
      'event',
      'arm',
      'currency',
      sql<number>`count(*)`.as('n'),
      sql<number>`count(margin)`.as('priced'),
      sql<number>`sum(late)`.as('late'),
      sql<number>`sum(${sql.ref('over')})`.as('over_count'),
      money(source.postgres, 'cleared').as('cleared'),
      money(source.postgres, 'out_ba').as('out'),
      money(source.postgres, 'margin').as('margin'),
      margins.as('margins'),
      squares.as('squares'),
    ])
    .where('at', '>=', scope.from)
    .where('at', '<', scope.to)
    .where('status', '=', 'attributed')
    .where(sql<boolean>`coalesce(arm, '') <> 'test'`)
    .where(inScope(scope))
    .groupBy([key, 'supplier', 'event', 'arm', 'currency'])
    .execute()
}

/** Unattributed, rejected and voided notices. A bid that was reported for both events counts once in `bids`. */
function ledgerOthers(source: Source, scope: Scope) {
  const key = keyOf(scope.by, 'at')
  return source.db
    .selectFrom('ledger')
    .select([
      key.as('key'),
      'status',
      sql<number>`count(*)`.as('n'),
      sql<number>`count(distinct decision)`.as('bids'),
    ])
    .where('at', '>=', scope.from)
    .where('at', '<', scope.to)
    .where('status', '!=', 'attributed')
    .where(inScope(scope))
    .groupBy([key, 'status'])
    .execute()
}

export async function decidedRows(source: Source, scope: Scope) {
  const key = keyOf(scope.by, 'hour')
  return source.db
    .selectFrom('decided')
    .select([key.as('key'), 'arm', sql<number>`sum(bids)`.as('n')])
    .where('hour', '>=', hourOf(scope.from))
    .where('hour', '<', scope.to)
    .where(inScope(scope))
    .groupBy([key, 'arm'])
    .execute()
}

/** Wins of all parts of the scope. A key may occur several times. */
export async function winRows(source: Source, scope: Scope, { ledger, hours }: TimeRanges) {
  const rows = []
  for (const part of ledger) rows.push(...(await ledgerWins(source, { ...scope, ...part })))
  if (hours !== null) rows.push(...(await hourWins(source, { ...scope, ...hours }, hours.stale)))
  return rows
}

/** Notices that are not wins. Duplicates exist only as hourly sums. */
export async function otherRows(source: Source, scope: Scope, { ledger, hours }: TimeRanges) {
  const rows = []
  for (const part of ledger) rows.push(...(await ledgerOthers(source, { ...scope, ...part })))
  if (hours !== null) {
    const statuses = ['unattributed', 'rejected', 'voided']
    rows.push(...(await hourOthers(source, { ...scope, ...hours }, statuses, hours.stale)))
  }
  const whole = { ...scope, from: hourOf(scope.from) }
  rows.push(...(await hourOthers(source, whole, ['duplicate'])))
  return rows
}
