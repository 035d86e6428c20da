/**
 * Suppliers of the API (CONTRACT 14). `n` is the revision of the store at the change: nodes read what is newer than they
 * know. `block` is JSON, null if the supplier is deleted. A row stays for good: it reserves the id for its account.
 */
import { migration } from './migration.ts'

export const supplierBlocks = migration('019-supplier-blocks', () => [
  `create table supplier_blocks (
    supplier text primary key, account text, version bigint not null, n bigint not null, block text)`,
  'create index supplier_blocks_by_n on supplier_blocks (n)',
  `create table supplier_versions (
    supplier text not null, version bigint not null, at bigint not null, who text not null,
    account text not null, action text not null, request_id text not null, block text,
    constraint supplier_versions_key primary key (supplier, version))`,
])
