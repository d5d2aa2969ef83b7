/** Runs a statement that changes at most `most` rows until it has changed fewer: then none are left. */
export async function inChunks(most: number, change: () => PromiseLike<{ rowCount: number | null }>): Promise<void> {
  while (((await change()).rowCount ?? 0) >= most);
}
