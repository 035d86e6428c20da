/** What the ledger keeps of the notice of an unattributed win, so that the win can be looked up again. */
import * as z from 'zod'
import type { ContextState } from '../../opd/types.ts'
import type { Caller } from '../http/roles.ts'
import type { UnattributedWin } from '../store/unattributed.ts'
import type { Notice } from './notice.ts'

/** Short names, because each unattributed row has one. Absent members are those that the notice did not have. */
const memoSchema = z.object({
  /** All readings of the bid id, if there are several or it was cut. */
  ids: z.array(z.string()).optional(),
  ssp: z.string().optional(),
  cur: z.string().optional(),
  least: z.string().optional(),
  /** The account of the caller; absent: it had no token. */
  account: z.string().optional(),
  context: z.enum(['valid', 'absent', 'unexpanded', 'invalid', 'expired']),
})

const longestMemo = 8192

/** null: it would be too long to keep. */
export function memoOf(
  notice: Notice,
  ledgerBidId: string,
  context: ContextState,
  caller: Caller | null,
): string | null {
  const ids = [notice.bidId, ...(notice.otherBidIds ?? [])]
  const memo: z.input<typeof memoSchema> = {
    ...(ids.length > 1 || notice.bidId !== ledgerBidId ? { ids } : {}),
    ssp: notice.ssp,
    cur: notice.currency,
    least: notice.minToWin,
    account: caller?.account,
    context,
  }
  const text = JSON.stringify(memo)
  return text.length > longestMemo ? null : text.replaceAll('\\u0000', '\\uFFFD')
}

const readMemo = (win: UnattributedWin) => memoSchema.parse(JSON.parse(win.notice))

export const bidIdsOf = (win: UnattributedWin): readonly string[] =>
  readMemo(win).ids ?? [win.bid_id]

/** The notice of an unattributed win, its caller, and the state of the context that came with it. */
export function noticeOf(win: UnattributedWin): {
  notice: Notice
  caller: Caller | null
  context: ContextState
} {
  const { ids = [win.bid_id], ssp, cur, least, account, context } = readMemo(win)
  const [bidId = win.bid_id, ...otherBidIds] = ids
  return {
    notice: {
      bidId,
      ...(otherBidIds.length > 0 ? { otherBidIds } : {}),
      price: win.cleared,
      currency: cur,
      minToWin: least,
      svcOpd: undefined,
      ssp,
      event: win.event === 'billing' ? 'billing' : 'win',
      priceDsp: win.price_dsp ?? undefined,
    },
    caller: account === undefined ? null : { subject: '', account, roles: new Set() },
    context,
  }
}
