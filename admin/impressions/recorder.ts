/** Rows on their way to the ledger: of all nodes one writes each, and none stands beside another of the same win. */
import type { SeenDecisions } from '../../opd/ports.ts'
import type { Ledger, LedgerEntry } from '../ports.ts'

export class Recorder {
  private readonly ledger: Ledger
  private readonly seen: SeenDecisions | null

  constructor({ ledger, seen }: { ledger: Ledger; seen: SeenDecisions | null }) {
    this.ledger = ledger
    this.seen = seen
  }

  /** Claims, records, confirms; a store that fails releases the claim. `stands`: the ledger has the row. */
  async keep(entry: LedgerEntry): Promise<'recorded' | 'seen' | 'stands'> {
    const { ledger, seen } = this
    const { decision, event } = entry
    // without Redis the ledger alone decides
    const claim = (await seen?.claim(decision, event).catch(() => 'new' as const)) ?? 'new'
    if (claim === 'seen') return 'seen'
    let result: 'recorded' | 'duplicate'
    try {
      result = await ledger.record(entry)
    } catch (error) {
      seen?.release(decision, event)
      throw error
    }
    seen?.confirm(decision, event)
    return result === 'duplicate' ? 'stands' : result
  }

  /**
   * Two nodes that hear of one win at once, of which one cannot tell whose it is, look for each other's row before either
   * stands: so each looks again behind its own, and one of the two goes. Through Redis both know whose it is.
   */
  async overtaken(entry: LedgerEntry, look: () => Promise<boolean>): Promise<boolean> {
    const { ledger, seen } = this
    if (ledger.takeBack === undefined || seen !== null) return false
    // the row is on disk: a store that is lost now does not undo that
    return look()
      .then((stands) => stands && ledger.takeBack!(entry))
      .catch(() => false)
  }
}
