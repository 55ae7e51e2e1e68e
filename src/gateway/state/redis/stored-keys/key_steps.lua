-- Steps of the scripts that change API keys; they come before each of them.

-- Changes that are told one by one; who missed more reads all keys.
local CHANGES_MAX = 5000

-- The version names the moment besides the count: after a failover that lost a change the next one has the same count,
-- and is another change.
local function changed(version, changes, id)
  local time = redis.call('TIME')
  local moment = time[1] .. '.' .. time[2]
  local count = redis.call('HINCRBY', version, 'count', 1)
  redis.call('HSET', version, 'changed_at', moment)
  redis.call('LPUSH', changes, string.format('%.0f-%s %s', count, moment, id))
  redis.call('LTRIM', changes, 0, CHANGES_MAX)
  redis.pcall('PUBLISH', 'lk:jobs', 'settings')
end

