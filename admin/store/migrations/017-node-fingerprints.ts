import { migration } from './migration.ts'

/** What must be equal on all nodes: check values that each node publishes, as JSON in `details`. */
export const nodeFingerprints = migration('017-node-fingerprints', () => [
  `create table node_fingerprints (
    node text primary key, at bigint not null, keys text not null, configuration text not null,
    details text not null)`,
])
