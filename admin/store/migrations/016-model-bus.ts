import { sql } from 'kysely'
import type { Migration } from './migration.ts'

/**
 * PostgreSQL: what nodes without Redis share of their models. The large tables are unlogged: a crash of the database
 * empties them, and the nodes write them again. The places of the stream are logged, so that none is used twice.
 */
export const modelBus: Migration = {
  id: '016-model-bus',
  async up(db, postgres) {
    if (!postgres) return
    await sql`create table model_streams (mode text primary key, last bigint not null)`.execute(db)
    await sql`insert into model_streams values ('revenue', 0), ('margin', 0)`.execute(db)
    await sql`create unlogged table model_deltas (
      mode text not null, place bigint not null, delta bytea not null, primary key (mode, place))`.execute(
      db,
    )
    await sql`create unlogged table shared_models (
      mode text primary key, holder text not null, held_until bigint not null,
      asked bigint not null default 0, number bigint not null default 0, head text, model bytea)`.execute(
      db,
    )
    // models and curves are compressed already
    await sql`alter table shared_models alter column model set storage external`.execute(db)
  },
}
