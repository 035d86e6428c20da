/** Places in a configuration, as its faults spell them: `suppliers[0].opd.minFactor`. */
export type Path = readonly PropertyKey[]

export const show = (path: Path) =>
  path.reduce<string>(
    (text, part) =>
      typeof part === 'number'
        ? `${text}[${part}]`
        : text === ''
          ? String(part)
          : `${text}.${String(part)}`,
    '',
  )

export function valueAt(root: unknown, path: Path): unknown {
  let value = root
  for (const part of path)
    value = (value as Record<PropertyKey, unknown> | null | undefined)?.[part]
  return value
}
