/**
 * The type of a problem document (RFC 9457 3.1.1): a name, since neither listener serves the documents.
 *
 * @param code a row of a table of problems; docs/reference/problems.md has them all
 */
export const problemType = (code: string): string => `urn:bidweir:problem:${code}`
