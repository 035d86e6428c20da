import { migration } from './migration.ts'

/**
 * The journal of what follows a committed row, and the processes that work on it. The table `event_marks` is of a version
 * before, which may still run beside this one.
 */
export const outcomes = migration('018-outcomes', () => [
  `create table outcomes (
    batch text not null, place integer not null, node text not null,
    applied integer not null, at bigint not null, kind text not null, decision text not null,
    event text not null, body text not null,
    constraint outcomes_key primary key (node, batch, place))`,
  'create table outcome_nodes (node text primary key, alive bigint not null)',
])
