/** A structured log, which pino implements. A call never throws and waits for nothing. */
export interface Log {
  /**
   * @param fields what varies, by name: a program searches for them. No personal data, no secret.
   * @param message what has happened, the same text each time, in lower case
   */
  info(fields: object, message: string): void
  /**
   * Something that the program copes with, and an operator may have to look at.
   *
   * @param fields as in `info`
   * @param message as in `info`
   */
  warn(fields: object, message: string): void
  /**
   * Something is lost, refused or off until an operator acts, or the cause ends.
   *
   * @param fields as in `info`
   * @param message as in `info`
   */
  error(fields: object, message: string): void
}
