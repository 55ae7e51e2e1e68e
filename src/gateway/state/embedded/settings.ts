import type { WorkspaceSettings } from '../../../contracts/settings.ts'
import type { StateDatabase } from './database.ts'
import type { Operations } from './subjects.ts'

type WebhookRow = {
  readonly url: string
  readonly secret: string
  readonly created_at_ms: number
  readonly previous_secret: string | null
  readonly previous_until_ms: number | null
}

export function createSettings(db: StateDatabase, now: () => number): Operations<WorkspaceSettings> {
  const findDomains = db.prepare('SELECT domains FROM audio_url_domains WHERE workspace = ?')
  const putDomains = db.prepare('INSERT OR REPLACE INTO audio_url_domains (workspace, domains) VALUES (?, ?)')
  const removeDomains = db.prepare('DELETE FROM audio_url_domains WHERE workspace = ?')
  const findWebhook = db.prepare('SELECT * FROM webhooks WHERE workspace = ?')
  const putWebhook = db.prepare(`
    INSERT OR REPLACE INTO webhooks (workspace, url, secret, created_at_ms, previous_secret, previous_until_ms)
    VALUES (?, ?, ?, ?, ?, ?)`)
  const resealWebhook = db.prepare(
    'UPDATE webhooks SET secret = ?, previous_secret = ? WHERE workspace = ? AND secret = ?',
  )
  const removeWebhook = db.prepare('DELETE FROM webhooks WHERE workspace = ?')
  const findContent = db.prepare('SELECT 1 FROM content_shown WHERE workspace = ?')
  const showContent = db.prepare('INSERT OR IGNORE INTO content_shown (workspace) VALUES (?)')
  const hideContent = db.prepare('DELETE FROM content_shown WHERE workspace = ?')

  return {
    audioUrlDomains(workspace) {
      const row = findDomains.get(workspace)
      return row ? (JSON.parse(String(row.domains)) as string[]) : []
    },

    putAudioUrlDomains: (workspace, domains) => void putDomains.run(workspace, JSON.stringify(domains)),

    webhook(workspace) {
      const row = findWebhook.get(workspace) as WebhookRow | undefined
      if (!row) return null
      const { previous_secret: secret, previous_until_ms: untilMs } = row
      const previous = secret !== null && untilMs !== null && untilMs > now() ? { secret, untilMs } : null
      return { url: row.url, secret: row.secret, createdAtMs: row.created_at_ms, previous }
    },

    putWebhook(workspace, { url, secret, createdAtMs }, keepMs) {
      const before = findWebhook.get(workspace) as WebhookRow | undefined
      // Its answer was lost, and it comes again: the secret before it must not be forgotten.
      if (before?.secret === secret) return
      const untilMs = before ? now() + keepMs : null
      putWebhook.run(workspace, url, secret, createdAtMs, before?.secret ?? null, untilMs)
    },

    resealWebhook: (workspace, { secret: from }, { secret, previous }) =>
      resealWebhook.run(secret, previous, workspace, from).changes !== 0,

    removeWebhook: (workspace) => removeWebhook.run(workspace).changes !== 0,

    contentShown: (workspace) => findContent.get(workspace) !== undefined,

    putContentShown(workspace, shown) {
      if (shown) showContent.run(workspace)
      else hideContent.run(workspace)
    },

    forget(workspace) {
      for (const statement of [removeDomains, removeWebhook, hideContent]) statement.run(workspace)
    },
  }
}
