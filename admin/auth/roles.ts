/** The roles of the API; each includes the ones before it (CONTRACT 8). */
export const roles = ['viewer', 'api', 'operator'] as const
export type Role = (typeof roles)[number]

export const may = (held: ReadonlySet<string>, needed: Role): boolean =>
  roles.slice(roles.indexOf(needed)).some((role) => held.has(role))
