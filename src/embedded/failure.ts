/** The start cannot go on. The message is one line for the person at the terminal: what is wrong and what to do next. */
export class StartFailure extends Error {
  override name = 'StartFailure';
}
