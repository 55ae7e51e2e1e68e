import type { Principal } from '../schema/catalog.ts'
import type { Accounts, AccountView } from '../schema/ledger.ts'

/** How old a view may be, ms: many callers who look at an account cost the state one look in this time. */
const FRESH_MS = 1_000
/** Above this many views those that nobody asks for any more are dropped. */
const KEPT_MAX = 1_000

/** How accounts stand, for those who only look: up to a second ago. */
export interface AccountViews {
  /** At once when it is fresh. Null: the state does not answer. */
  of(workspace: Principal['workspace']): AccountView | null | Promise<AccountView | null>
}

export function createAccountViews(accounts: Pick<Accounts, 'show'>): AccountViews {
  interface Look {
    readonly atMs: number
    readonly coming: Promise<AccountView | null>
    view?: AccountView | null
  }
  const looks = new Map<string, Look>()

  function look({ id, terms }: Principal['workspace'], atMs: number): Look {
    if (looks.size >= KEPT_MAX) {
      for (const [known, { atMs: then }] of looks) {
        if (atMs - then <= FRESH_MS) break
        looks.delete(known)
      }
    }
    const coming = accounts.show(id, terms).catch(() => null)
    const fresh: Look = { atMs, coming }
    coming.then((view) => {
      fresh.view = view
    })
    // The oldest stays first.
    looks.delete(id)
    looks.set(id, fresh)
    return fresh
  }

  return {
    of(workspace) {
      const nowMs = performance.now()
      const known = looks.get(workspace.id)
      const { view, coming } = known && nowMs - known.atMs < FRESH_MS ? known : look(workspace, nowMs)
      return view === undefined ? coming : view
    },
  }
}
