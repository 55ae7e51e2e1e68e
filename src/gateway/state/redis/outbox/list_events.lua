-- Looks through some events of a partition, the newest first.
--
-- KEYS partition never
-- ARGV workspace limit offset
-- Reply {next, event, …}: each event as {job_id, id, workspace, status, occurred, attempts, next_attempt, reason}; `next`
--       is the offset to go on from, -1 at the end
--
-- An empty workspace is any. What is on its way is tried next when its lease is over.

local SEEN_AT_ONCE = 500

local limit, offset = tonumber(ARGV[2]), tonumber(ARGV[3])

local ids = redis.call('ZREVRANGE', key('events'), offset, offset + SEEN_AT_ONCE - 1)
local events = { #ids == SEEN_AT_ONCE and offset + SEEN_AT_ONCE or -1 }
for _, id in ipairs(ids) do
  local held = redis.call('HMGET', key('event', id), 'id', 'workspace', 'status', 'occurred', 'attempts', 'reason')
  local workspace = held[2]
  local kept_until_ms = tonumber(redis.call('ZSCORE', key('given_up'), id) or math.huge)
  local is_asked = workspace and (ARGV[1] == '' or ARGV[1] == workspace)
  if is_asked and now_ms < kept_until_ms and #events <= limit then
    local next_attempt = redis.call('ZSCORE', key('due', workspace), id)
      or redis.call('ZSCORE', key('flights', workspace), id)
    table.insert(events, { id, held[1], workspace, held[3], held[4], held[5], next_attempt, held[6] })
  end
end
return events
