/** The learner's public interface, which does not change. Pure: no clock, no randomness, no I/O of its own. */
import { OnlineLearner } from './learner/learner.ts'
import type { Learner, LearnerOptions } from './learner/types.ts'

export { isRefit } from './learner/refit/job.ts'
export { refit } from './learner/refit/refit.ts'
export type { BidFacts, Decision, Learner, LearnerOptions, Policy } from './learner/types.ts'

/** `snapshot` restores a state; one that is damaged or of another version throws `SnapshotError`. */
export function createLearner(options: LearnerOptions, snapshot?: Uint8Array): Learner {
  return new OnlineLearner(options, snapshot)
}
