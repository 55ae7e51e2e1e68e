-- Counts the events of a partition that were given up, by workspace.
--
-- KEYS partition never
-- ARGV kept_past_ms
-- Reply {workspace, …}: that of each event which is kept past the moment, at most a thousand of them

local COUNTED_MAX = 1000

local workspaces = {}
for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', key('given_up'), '+inf', '(' .. ARGV[1], 'LIMIT', 0, COUNTED_MAX)) do
  local workspace = redis.call('HGET', key('event', id), 'workspace')
  if workspace then table.insert(workspaces, workspace) end
end
return workspaces
