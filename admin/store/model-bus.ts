/**
 * The models of nodes that share PostgreSQL and no Redis: what redis-models.ts keeps in Redis. No statement depends on the
 * session of another, so that it works behind PgBouncer in transaction mode.
 */
import { type Kysely, sql } from 'kysely'
import { type Mode, modes } from '../../opd/shared/arms.ts'
import { leaseLife, type ModelBus, type SharedModelHead } from '../../opd/state/shared-model.ts'
import { clockOf, type Tables } from './tables.ts'

/** Deltas kept for the next node that leads. Older ones are in the shared model. */
const maxDeltas = 1200
const fetchBatch = 100
/** Milliseconds between two marks of nodes that read curves, and after the last one until none is written. */
const markEvery = 5000
const readersGone = 15_000

const isCurve = (mode: string) => !modes.includes(mode as Mode)
/** A place of another store means the beginning. */
const placeOf = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : 0)

export function modelBusOf(db: Kysely<Tables>): ModelBus {
  const clock = clockOf(true, Date.now)
  return {
    /** The lock on the row of the stream gives places in the order of commits, so that no reader misses one. */
    async publish(mode, delta) {
      await sql`with next as (
          update model_streams set last = last + 1 where mode = ${mode} returning last),
        outdated as (
          delete from model_deltas where mode = ${mode} and place <= (select last from next) - ${maxDeltas})
        insert into model_deltas select ${mode}, last, ${Buffer.from(delta)}::bytea from next`.execute(
        db,
      )
    },
    async fetch(mode, from) {
      const { rows } = await sql<{ place: number; delta: Buffer }>`select place, delta
        from model_deltas where mode = ${mode}
          and place > least(${placeOf(from)}, (select last from model_streams where mode = ${mode}))
        order by place limit ${fetchBatch}`.execute(db)
      const deltas = rows.map(({ place, delta }) => ({ place: String(place), bytes: delta }))
      return { deltas, last: deltas.at(-1)?.place ?? from }
    },
    async look(mode, node, candidate, known) {
      // No row is written, nor locked, while another node has the lease.
      if (candidate)
        await sql`insert into shared_models as shared (mode, holder, held_until)
          select ${mode}, ${node}, ${clock} + ${leaseLife} where not exists (
            select from shared_models
              where mode = ${mode} and holder <> ${node} and held_until > ${clock})
          on conflict (mode) do update set holder = excluded.holder, held_until = excluded.held_until
          where shared.holder = excluded.holder or shared.held_until <= ${clock}`.execute(db)
      else
        await sql`update shared_models
          set asked = ${clock}, held_until = case when holder = ${node} then 0 else held_until end
          where mode = ${mode}
            and (asked < ${clock} - ${markEvery} or (holder = ${node} and held_until > 0))`.execute(
          db,
        )
      const { rows } = await sql<{ leads: boolean; read: boolean; number: number; head: string }>`
        select holder = ${node} and held_until > ${clock} as leads,
          asked > ${clock} - ${readersGone} as read,
          number, case when number <> ${known} then head end as head
        from shared_models where mode = ${mode}`.execute(db)
      const { leads, read, number, head } = rows[0] ?? { leads: false, number: 0, head: null }
      return {
        // A node that is alone with its database writes no curves, of some megabytes each.
        leads: leads && (read === true || !isCurve(mode)),
        number,
        head: head === null ? null : (JSON.parse(head) as SharedModelHead),
      }
    },
    async writeModel(mode, node, head, bytes) {
      const { rows } = await sql<{ number: number }>`update shared_models
        set head = ${JSON.stringify(head)}, model = ${Buffer.from(bytes)}, number = number + 1
        where mode = ${mode} and holder = ${node} and held_until > ${clock} returning number`.execute(
        db,
      )
      return rows[0]?.number ?? 0
    },
    async readModel(mode) {
      const { rows } = await sql<{ model: Buffer | null }>`
        select model from shared_models where mode = ${mode}`.execute(db)
      return rows[0]?.model ?? null
    },
  }
}
