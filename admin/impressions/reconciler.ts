/**
 * Looks up unattributed wins again (CONTRACT 6): provisional ones when the shared bid log can be asked, and the others of
 * the last hour in the bid log of this node, which may have a decision that the shared log no longer has.
 */

import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import type { Engine } from '../../opd/types.ts'
import type { UnattributedWin, UnattributedWins } from '../store/unattributed.ts'
import { provisional } from './ledger-row.ts'
import { bidIdsOf } from './notice-memo.ts'
import type { Notices, SecondResult } from './process.ts'

/** Milliseconds between two runs, and for which a win that no node knew is looked up again. */
const every = 5000
const unknownFor = 3_600_000

const unknownReasons = ['unknown_bid', 'context_invalid', 'context_expired']

interface ReconcilerDeps {
  notices: Notices
  wins: UnattributedWins
  engine: Pick<Engine, 'loggedSuppliers'>
  /** Milliseconds: a provisional win is looked up until it is this old. */
  contextTtl: () => number
  now: () => number
  log: Log
}

/** Looks wins up again that no node could attribute when they arrived. */
export class Reconciler {
  /** Wins that were looked up again, by result. */
  readonly counts: Record<SecondResult, number> = {
    attributed: 0,
    unknown: 0,
    refused: 0,
    waiting: 0,
  }
  private readonly deps: ReconcilerDeps
  private readonly timer: NodeJS.Timeout
  private closed = false
  private failed = false

  constructor(deps: ReconcilerDeps) {
    this.deps = deps
    this.timer = setInterval(() => void this.run(), every).unref()
  }

  /** Looks up all wins that may have become known. Failures are logged; the next run tries again. */
  readonly run = oneAtATime(async () => {
    try {
      const { now, contextTtl, engine } = this.deps
      await this.lookUp([provisional], now() - contextTtl(), () => true)
      await this.lookUp(unknownReasons, now() - unknownFor, (win) =>
        bidIdsOf(win).some((bidId) => engine.loggedSuppliers(bidId).length > 0),
      )
      this.failed = false
    } catch (error) {
      if (!this.failed)
        this.deps.log.warn(
          { err: (error as Error).message },
          'unattributed wins could not be looked up again and will be retried',
        )
      this.failed = true
    }
  })

  close(): void {
    this.closed = true
    clearInterval(this.timer)
  }

  private async lookUp(
    reasons: readonly string[],
    from: number,
    mayBeKnown: (win: UnattributedWin) => boolean,
  ): Promise<void> {
    const { wins, notices } = this.deps
    for await (const page of wins.pages(reasons, from)) {
      const began = performance.now()
      const results = await Promise.all(
        page.filter(mayBeKnown).map((win) => notices.lookUpAgain(win, wins)),
      )
      for (const result of results) this.counts[result]++
      // while the shared log cannot be asked, the other pages would wait as well
      if (this.closed || results.includes('waiting')) return
      // at most half of the time, so that notices are not delayed
      const took = performance.now() - began
      await new Promise((resolve) => setTimeout(resolve, took))
    }
  }
}
