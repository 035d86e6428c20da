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

/**
 * A learner of one mode. It has no timers and does no I/O.
 *
 *
 * @param options `attributionWindow` in milliseconds; what is absent has its default
 * @param snapshot a state to restore; none: the learner begins with its priors
 * @throws SnapshotError if the snapshot is damaged or of another version
 */
export function createLearner(options: LearnerOptions, snapshot?: Uint8Array): NodeLearner {
  return new OnlineLearner(options, snapshot)
}
