import type { Guard } from '../../pricing/arms.ts'

/** What explains a decision, and what a metric shows. */
export interface Explained {
  theta: number
  /** CPM. */
  lambda: number
  guard: Guard
  /** Milliseconds; when the guard changed. */
  since: number
  /** Shares kept by the last 25,000 bids, as measured; and the realised margin share. */
  wins: number
  spend: number
  margin: number
  /** How often each guard acted. */
  alarms: Readonly<Partial<Record<Guard, number>>>
}
