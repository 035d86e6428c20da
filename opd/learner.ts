/** The learner's public interface, which does not change. Pure: no clock, no randomness, no I/O of its own. */
import { OnlineLearner } from './learner/learner.ts'
import type { LearnerOptions, NodeLearner } from './learner-types.ts'

export { isRefit } from './learner/refit/job.ts'
export { refit } from './learner/refit/refit.ts'
export type {
  BidFacts,
  BidFilter,
  Decision,
  Learner,
  LearnerOptions,
  Policy,
  RecentBid,
} from './learner-types.ts'

/** `snapshot`: a state to restore. Throws `SnapshotError` if it is damaged or of another version. */
export function createLearner(options: LearnerOptions, snapshot?: Uint8Array): NodeLearner {
  return new OnlineLearner(options, snapshot)
}
