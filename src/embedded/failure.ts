/** The start failed. The message is one line for the person at the terminal: what is wrong and what to do. */
export class StartFailure extends Error {
  override name = 'StartFailure';
}
