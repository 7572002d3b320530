import Traffic
import Forward

/// What is decided in the store, each by one script, so that no other machine's decision comes between. They take the
/// time of the store (TIME): the clocks of the machines that ask don't count.
enum StoreScript: Int, CaseIterable {
  /// `limit_req`: nginx's leaky bucket of several keys, all or none. A key holds the time at which its excess will be gone, in
  /// microseconds. For each key: the rate in thousandths of a request per second, and the burst in thousandths. Returns 0 and the
  /// excess of each key, or the number of the key that refuses (from 1) and its excess; thousandths.
  case rates
  /// `limit_conn`: counts one more of a key, unless there are as many as the limit. A key holds a count for each client of the
  /// store; those of clients that no longer tell that they live are dropped. Arguments: the client, the limit, what the
  /// keys of living clients begin with, and the milliseconds after which the key is forgotten.
  case take
  /// Ends one that `take` counted. Arguments: the client.
  case release
  /// Wrong passwords: begins an attempt for several keys unless one of them has too many. A key holds the times of its
  /// attempts, in microseconds, by their own names. Arguments: the name of this attempt, the limit, and its time in microseconds. Returns the
  /// seconds to wait, or 0.
  case attempt
  /// Keys of session tickets, newest first, each behind its time in seconds: puts the offered one in front if the newest is too
  /// old, and drops what is older than it may be kept. Arguments: the offer, both times in seconds. Returns the time now and
  /// the list.
  case tickets
  /// `keyval_zone`: changes a pair of a hash, whose field without a name counts the changes. A value stands behind the
  /// time in milliseconds at which it ends, 0 for never, and a colon. Arguments: `add`, `set`, `remove` or `clear`, the
  /// key, the value, and the milliseconds that it lives, empty for ever. Returns `done`, `exists`, `absent`, or `busy`
  /// while all pairs are being written. `clear` makes a hash out of whatever is there.
  case keyvalChange
  /// Whether such a hash has changed. Argument: the count of changes that is known. Returns 0 if there is nothing, not
  /// even a count; 1 if nothing has changed, or all pairs are being written; 2 and the count; or 3 for a count that is
  /// none.
  case keyvalRead
  /// A piece of such a hash: at most 256 pairs and about 32 KiB. What belongs to one step of HSCAN and is too much for
  /// a piece comes in the order of the digests of its keys. Arguments: HSCAN's cursor, and the digest of the last key
  /// that was taken of that step; `0` and nothing for the first piece. Returns the time now, both for the next piece,
  /// `0` and nothing after the last one, and fields with their values. Fields that are longer than a pair can be are
  /// none of ours.
  case keyvalPart
  /// Puts pairs into such a hash in pieces, if there is nothing, not even a count. While that goes on, the count is the
  /// time in milliseconds, with a minus, after which another may begin anew. Arguments: what the last piece returned,
  /// empty for the first; the count for the last piece, else empty; and keys, each before its milliseconds of life,
  /// empty for ever, and its value. Returns the count that it left; empty if somebody else has put pairs there.
  case keyvalSeed

  var text: String {
    switch self {
    case .rates:
      """
      local t=redis.call('TIME') local now=t[1]*1000000+t[2]
      local rest={} local out={0}
      for i=1,#KEYS do
        local rate=tonumber(ARGV[2*i-1])
        local e=0
        local x=redis.call('GET',KEYS[i])
        if x then e=math.max(0,tonumber(x)-now+1e9/rate) end
        local excess=math.floor(e*rate/1e6+0.5)
        if excess>tonumber(ARGV[2*i]) then return {i,excess} end
        rest[i]=e out[i+1]=excess
      end
      for i=1,#KEYS do
        local life=math.ceil((rest[i]+1e9/tonumber(ARGV[2*i-1]))/1000)+1
        redis.call('SET',KEYS[i],string.format('%.0f',now+rest[i]),'PX',string.format('%.0f',life))
      end
      return out
      """
    case .take:
      """
      local all=redis.call('HGETALL',KEYS[1]) local sum=0
      for i=1,#all,2 do
        if all[i]==ARGV[1] or redis.call('EXISTS',ARGV[3]..all[i])==1 then sum=sum+all[i+1]
        else redis.call('HDEL',KEYS[1],all[i]) end
      end
      if sum>=tonumber(ARGV[2]) then return 0 end
      redis.call('HINCRBY',KEYS[1],ARGV[1],1)
      redis.call('PEXPIRE',KEYS[1],ARGV[4])
      return 1
      """
    case .release:
      """
      if redis.call('HINCRBY',KEYS[1],ARGV[1],-1)<=0 then redis.call('HDEL',KEYS[1],ARGV[1]) end
      return 0
      """
    case .attempt:
      """
      local t=redis.call('TIME') local now=t[1]*1000000+t[2]
      local limit=tonumber(ARGV[2]) local time=tonumber(ARGV[3]) local wait=0
      for i=1,#KEYS do
        redis.call('ZREMRANGEBYSCORE',KEYS[i],'-inf',string.format('%.0f',now-time))
        local n=redis.call('ZCARD',KEYS[i])
        if n>=limit then
          local first=redis.call('ZRANGE',KEYS[i],n-limit,n-limit,'WITHSCORES')
          wait=math.max(wait,1,math.ceil((tonumber(first[2])+time-now)/1e6))
        end
      end
      if wait>0 then return wait end
      for i=1,#KEYS do
        redis.call('ZADD',KEYS[i],string.format('%.0f',now),ARGV[1])
        redis.call('PEXPIRE',KEYS[i],string.format('%.0f',math.ceil(time/1000)))
      end
      return 0
      """
    case .tickets:
      """
      local now=tonumber(redis.call('TIME')[1])
      local newest=redis.call('LINDEX',KEYS[1],0)
      if not newest or now-tonumber(string.match(newest,'^%d+'))>=tonumber(ARGV[2]) then
        redis.call('LPUSH',KEYS[1],string.format('%.0f',now)..':'..ARGV[1])
      end
      while true do
        local oldest=redis.call('LINDEX',KEYS[1],-1)
        if not oldest or now-tonumber(string.match(oldest,'^%d+'))<=tonumber(ARGV[3]) then break end
        redis.call('RPOP',KEYS[1])
      end
      redis.call('EXPIRE',KEYS[1],ARGV[3])
      return {now,redis.call('LRANGE',KEYS[1],0,15)}
      """
    case .keyvalChange:
      """
      local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000)
      if ARGV[1]=='clear' then
        local count=redis.pcall('HGET',KEYS[1],'')
        if type(count)~='string' or not string.match(count,'^%d+$') then count=now end
        redis.call('DEL',KEYS[1])
        redis.call('HSET',KEYS[1],'',string.format('%.0f',tonumber(count)+1))
        return 'done'
      end
      local count=redis.call('HGET',KEYS[1],'')
      if count and string.match(count,'^%-%d+$') then
        if -tonumber(count)>=now then return 'busy' end
        redis.call('DEL',KEYS[1]) count=false
      end
      local old=redis.call('HGET',KEYS[1],ARGV[2])
      if old then
        local ending=tonumber(string.match(old,'^%d+') or '0')
        if ending>0 and ending<=now then old=false end
      end
      if ARGV[1]=='add' and old then return 'exists' end
      if ARGV[1]~='add' and not old then return 'absent' end
      if ARGV[1]=='remove' then redis.call('HDEL',KEYS[1],ARGV[2])
      else
        local ending=0
        if ARGV[4]~='' then ending=now+tonumber(ARGV[4]) end
        redis.call('HSET',KEYS[1],ARGV[2],string.format('%.0f',ending)..':'..ARGV[3])
      end
      if count and not string.match(count,'^%d+$') then redis.call('HSET',KEYS[1],'',string.format('%.0f',now))
      else redis.call('HINCRBY',KEYS[1],'',1) end
      return 'done'
      """
    case .keyvalRead:
      """
      local count=redis.call('HGET',KEYS[1],'')
      if not count then return {0} end
      if string.match(count,'^%-%d+$') then
        local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000)
        if -tonumber(count)<now then return {0} end
        return {1}
      end
      if not string.match(count,'^%d+$') then return {3} end
      if count==ARGV[1] then return {1} end
      return {2,count}
      """
    case .keyvalPart:
      """
      local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000)
      local cursor,after=ARGV[1],ARGV[2]
      local out={} local size=0
      for step=1,64 do
        local scan=redis.call('HSCAN',KEYS[1],cursor,'COUNT',64)
        local all={} local sum=0
        for i=1,#scan[2],2 do
          local name,value=scan[2][i],scan[2][i+1]
          if name~='' and #name<=8192 and #value<=8224 then
            all[#all+1]={name,value}
            sum=sum+#name+#value+32
          end
        end
        if after=='' and size+sum<=32768 and #out/2+#all<=256 then
          for _,p in ipairs(all) do out[#out+1]=p[1] out[#out+1]=p[2] end
          size=size+sum
        elseif #out>0 then
          return {now,cursor,after,out}
        else
          for _,p in ipairs(all) do p[3]=redis.sha1hex(p[1]) end
          table.sort(all,function(a,b) return a[3]<b[3] end)
          for _,p in ipairs(all) do
            if p[3]>after then
              local more=#p[1]+#p[2]+32
              if #out>0 and (size+more>32768 or #out>=512) then return {now,cursor,after,out} end
              out[#out+1]=p[1] out[#out+1]=p[2]
              size=size+more after=p[3]
            end
          end
        end
        cursor=scan[1] after=''
        if cursor=='0' then break end
      end
      return {now,cursor,'',out}
      """
    case .keyvalSeed:
      """
      local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000)
      local count=redis.call('HGET',KEYS[1],'')
      if ARGV[1]=='' then
        if count and not (string.match(count,'^%-%d+$') and -tonumber(count)<now) then return '' end
        redis.call('DEL',KEYS[1])
      elseif count~=ARGV[1] then return '' end
      for i=3,#ARGV,3 do
        local ending=0
        if ARGV[i+1]~='' then ending=now+tonumber(ARGV[i+1]) end
        redis.call('HSET',KEYS[1],ARGV[i],string.format('%.0f',ending)..':'..ARGV[i+2])
      end
      local mark=ARGV[2]
      if mark=='' then mark=string.format('%.0f',-(now+10000)) end
      redis.call('HSET',KEYS[1],'',mark)
      return mark
      """
    }
  }
}
