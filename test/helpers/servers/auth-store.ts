import type { Adapter, AdapterPayload } from 'oidc-provider';

/**
 * What the authorization server of tests keeps of one model (oidc-provider makes one store for each), in memory and for as long
 * as it runs: the store of oidc-provider forgets the oldest of 1,000 entries, so 500 owners would lose their sign-ins.
 */
export class AuthStore implements Adapter {
  readonly #entries = new Map<string, AdapterPayload>();

  async upsert(id: string, payload: AdapterPayload) {
    this.#entries.set(id, payload);
  }

  async find(id: string) {
    return this.#entries.get(id);
  }

  async findByUid(uid: string) {
    return this.#first((payload) => payload.uid === uid);
  }

  async findByUserCode(userCode: string) {
    return this.#first((payload) => payload.userCode === userCode);
  }

  async consume(id: string) {
    const entry = this.#entries.get(id);
    if (entry) entry.consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id: string) {
    this.#entries.delete(id);
  }

  async revokeByGrantId(grantId: string) {
    for (const [id, payload] of this.#entries) if (payload.grantId === grantId) this.#entries.delete(id);
  }

  #first(fits: (payload: AdapterPayload) => boolean) {
    return [...this.#entries.values()].find(fits);
  }
}
