-- API keys that have changed since a version, and the moments at which some of them were revoked.
--
-- KEYS all revoked version changes
-- ARGV count changed_at
-- Reply {} | {version, keys, moments}: that is not known any more, or the version by now, ids and values in turn, and a
-- moment or false for each
--
-- A change that the list lacks was lost in a failover, is too long ago, or was made by a node that does not know the
-- list: the version that is asked about is then not where its count says.

local version = redis.call('HMGET', KEYS[3], 'count', 'changed_at')
local missed = (version[1] or 0) - ARGV[1]
if missed < 0 then return {} end

local asked = ARGV[1] .. '-' .. ARGV[2]
local changes = redis.call('LRANGE', KEYS[4], 0, missed)
if string.match(changes[missed + 1] or '', '^%S*') ~= asked then return {} end

local keys, moments, known = {}, {}, {}
for at = 1, missed do
  local id = string.match(changes[at], ' (.*)$')
  local key = not known[id] and redis.call('HGET', KEYS[1], id)
  known[id] = true
  if key then
    keys[#keys + 1] = id
    keys[#keys + 1] = key
    moments[#moments + 1] = redis.call('HGET', KEYS[2], id)
  end
end
return { (version[1] or '0') .. '-' .. (version[2] or '0'), keys, moments }
