/**
 * Whether a text is a secret of 32 bytes in base64url, as `bidweir key new` prints them.
 *
 * @param text 43 characters, without padding
 */
export const is32Bytes = (text: string): boolean =>
  /^[A-Za-z0-9_-]{43}=?$/.test(text) && Buffer.from(text, 'base64url').length === 32
