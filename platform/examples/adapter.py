#!/usr/bin/python3 -I
"""Runs one case of the containment corpus through `examples/fence`: adapter.py POLICY.json -- argv...

FENCE is the built example, SBX_BACKEND the backend (native if unset). The runner clears the environment, so pass
both in the adapter command: --adapter '/usr/bin/env FENCE=... SBX_BACKEND=... adapter.py'.
"""
import json,os,sys,tempfile,shutil
pol=json.load(open(sys.argv[1])); argv=sys.argv[3:]
FENCE=os.environ['FENCE']
BACK=os.environ.get('SBX_BACKEND','native')
def q(s):
    b=os.fsencode(s)
    return '%-' if not b else ''.join(chr(c) if 0x21<=c<=0x7e and c!=0x25 else '%%%02x'%c for c in b)
L=[]
def add(w,*a): L.append(' '.join([w]+[q(str(x)) for x in a]))
W=pol['rw'][0]
lim=pol['limits']
listed = pol['exec']!='any'
code='nocode' if listed else 'code'
PATH="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
if not listed:
    for d in ('/usr','/opt'):
        if os.path.isdir(d): add('bind','ro','code',d,d); add('rights','rlx',d)
    for s in ('bin','sbin','lib','lib64','lib32'):
        if os.path.islink('/'+s): add('symlink',os.readlink('/'+s),'/'+s)
    etc=['ld.so.cache','ld.so.conf','ld.so.conf.d','alternatives','ssl','nsswitch.conf','mime.types','terminfo','magic']
    for e in etc:
        p='/etc/'+e
        if os.path.exists(p) and not os.path.islink(p): add('bind','ro','nocode',p,p)
    add('file','/etc/passwd','root:x:0:0::/:/bin/sh\nsbx:x:%d:%d::/home/sbx:/bin/sh\n'%((os.getuid() or 1000,)*2)); add('file','/etc/group','sbx:x:%d:\n'%(os.getgid() or 1000)); add('file','/etc/hosts','127.0.0.1 localhost\n::1 localhost\n')
    add('rights','rl','/etc'); add('rights','l','/')
else:
    import subprocess
    need=set()
    for f in pol['exec']:
        out=subprocess.run(['/usr/bin/ldd',f],capture_output=True,text=True).stdout
        for w in out.split():
            if w.startswith('/'): need.add(w)
        need.add(f)
    for s in ('bin','sbin','lib','lib64'):
        if os.path.islink('/'+s): add('symlink',os.readlink('/'+s),'/'+s)
    for f in sorted(need):
        d=os.path.join(os.path.realpath(os.path.dirname(f)),os.path.basename(f))
        add('bind','ro','code',os.path.realpath(f),d)
        add('rights','rx' if f in pol['exec'] or 'ld-linux' in f else 'r',d)
    add('bind','ro','nocode','/etc/ld.so.cache','/etc/ld.so.cache'); add('rights','rl','/etc'); add('rights','l','/')
add('proc','/proc'); add('dev','/dev')
add('tmpfs',code,lim['tmp'],'1777','/tmp'); add('rights','rlwd'+('' if listed else 'x'),'/tmp')
add('tmpfs',code,lim['tmp'],'700','/home/sbx'); add('rights','rlwd'+('' if listed else 'x'),'/home/sbx')
add('tmpfs','nocode',1<<20,'755','/run'); add('rights','rlwd','/run')
add('symlink','../run','/var/run'); add('tmpfs','nocode',lim['tmp'],'1777','/var/tmp'); add('rights','rlwd','/var/tmp')
for p in pol['ro']: add('bind','ro',code,p,p); add('rights','rl'+('' if listed else 'x'),p)
for p in pol['rw']:
    add('bind','rw',code,p,p); add('rights','rlwd'+('' if listed else 'x'),p)
if pol.get('protect'):
    names='.git/hooks .git/config .git/config.worktree .git/commondir .git/info/attributes .gitmodules .gitconfig .envrc .mcp.json .vscode .idea .claude .codex .cursor .husky .bashrc .profile .bash_profile .zshrc .zprofile .ripgreprc .npmrc'.split()
    prot=[]
    for w in pol['rw']:
        prot+=[w+'/'+n for n in names]
        for r,ds,fs in os.walk(w):
            if '.git' in ds and r!=w: prot+=[r+'/'+n for n in names[:5]]
    for p in prot+pol.get('protect_existing',[]):
        if not os.path.islink(p): add('protect',p)
if os.path.basename(argv[0])==argv[0]:
    for d in PATH.split(':'):
        if os.access(d+'/'+argv[0],os.X_OK): prog=d+'/'+argv[0]; break
    else: print('not found',file=sys.stderr); sys.exit(127)
else: prog=argv[0]
add('program',prog)
for a in argv: add('arg',a)
env={'PATH':PATH,'HOME':'/home/sbx','TMPDIR':'/tmp','LANG':'C.UTF-8'}
for k in pol['env_allow']:
    if k in os.environ: env[k]=os.environ[k]
for k,v in env.items(): add('env',k,v)
add('cwd',W); add('stdio','inherit'); add('exec','listed' if listed else 'open')
add('limit','wall',lim['wall']*1000); add('limit','memory',lim['mem']); add('limit','pids',lim['pids']); add('limit','open-files',lim['nofile']); add('limit','file-size',lim['fsize']); add('limit','output',lim['output']); add('limit','shared-memory',lim['tmp'])
fd,f=tempfile.mkstemp(prefix='fence-plan-'); os.write(fd,('\n'.join(L)+'\n').encode()); os.close(fd)
rfd=os.open(f,os.O_RDONLY); os.unlink(f); os.set_inheritable(rfd,True)
os.execv(FENCE,[FENCE,BACK,'/proc/self/fd/%d'%rfd])
